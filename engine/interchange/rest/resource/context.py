"""A token for one patient (SMART `launch/patient`) reaches that patient's record, and nobody else's.

What is not listed here is refused: an interaction that is new must say first how it stays with one patient.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final, NamedTuple

from engine.fhir.json import Json, JsonObject
from engine.interchange.core.exchange import FhirRequest, Interaction, InteractionLevel
from engine.interchange.core.service import Service
from engine.interchange.kernel.outcome import Category, RefusedError, refuse
from engine.interchange.rest.binary.content import owners
from engine.interchange.rest.resource.catalogue import GROUP, KEPT
from engine.interchange.rest.resource.definition import CRITERIA, SUBSCRIPTION, Definition, patients_of
from engine.interchange.rest.resource.elements import values
from engine.interchange.rest.resource.pages import read_page_request
from engine.interchange.store.references import local_target, relative
from engine.interchange.store.transaction import StoredVersion, Transaction
from engine.interchange.tokens.role import RoleRule
from engine.interchange.tokens.scope import ANY, allows, wide
from engine.interchange.tokens.vault import Principal

READS: Final = frozenset({"read", "read-temporary", "vread", "history-instance"})
CHANGES: Final = frozenset({"update", "patch", "delete"})
# Search parameters that name whose record is searched.
OWNERS: Final = frozenset({"patient", "subject", "beneficiary", "target"})
# Those that lead beyond it, or into what else is known of others.
BEYOND: Final = ("_include", "_revinclude", "_has")
REQUIRED: Final = "required"
# Types whose searches are not limited to a patient, as none of their parameters names one.
OF_NOBODY: Final = frozenset({SUBSCRIPTION, GROUP})


class KnownRecord(NamedTuple):
    """Whose record it is, by id, under the survivor's too once that was merged; and what the address names.

    `owners` are the patients whose it is, of what says so in other resources: a Binary.
    """

    ids: tuple[str, ...]
    stored: StoredVersion | None
    owners: frozenset[str] = frozenset()


def restrict_to_patient(service: Service, request: FhirRequest, interaction: Interaction, access: str) -> FhirRequest:
    """Restrict a request to the patient of its token; RefusedError (403) where it reaches beyond that patient.

    A token without a patient, or whose scopes reach further (`user/`, `system/`), is not restricted, unless its client
    requires a patient.
    """
    if interaction.own_rights:
        return request
    principal = request.principal
    required = service.configuration.clients[principal.client].patient_context == REQUIRED
    if not principal.patient and not required:
        return request
    if allows(tuple(filter(wide, principal.scopes)), reached_by(interaction), access):
        return request
    if not principal.patient:
        raise refuse(Category.FORBIDDEN, "The token names no patient.", location="http.Authorization")
    if request.type not in KEPT:
        raise outside_compartment()
    known = service.store.read(principal.tenant, lambda transaction: _look_up(transaction, request))
    definition = KEPT[request.type]
    step = _step(interaction, definition)
    return step(service, request, definition, known)


def restrict_patient_id(
    service: Service, principal: Principal, patient_id: str, interaction: Interaction, access: str
) -> None:
    """Refuse (403) the result of an interaction on a patient ('' for none or all) to a token of another patient.

    It is refused to every token with a patient where the interaction itself is.
    """
    required = service.configuration.clients[principal.client].patient_context == REQUIRED
    if not principal.patient and not required:
        return
    if allows(tuple(filter(wide, principal.scopes)), reached_by(interaction), access):
        return
    _step(interaction, KEPT[interaction.type])
    ids = service.store.read(principal.tenant, lambda transaction: _ids(transaction, principal.patient))
    if not principal.patient or patient_id not in ids:
        raise outside_compartment()


def reached_by(interaction: Interaction) -> str:
    """Return the type that a scope must name for an interaction, `*` where that of one type is not enough."""
    return ANY if interaction.flags or interaction.tenant_wide else interaction.type


Step = Callable[[Service, FhirRequest, Definition, KnownRecord], FhirRequest]


def _step(interaction: Interaction, definition: Definition) -> Step:
    """Return how an interaction stays with one patient; RefusedError for one that cannot."""
    code, level = interaction.code, interaction.level
    directory = definition.reading is RoleRule.DIRECTORY and not definition.patient and definition.name != "Patient"
    if level is InteractionLevel.INSTANCE and code in READS:
        return _allow if directory else _check_instance
    if code == "search-type" and level is InteractionLevel.TYPE and definition.name not in OF_NOBODY:
        return _searched_freely if directory else _searched
    if code in {"everything", "export-ccda", "submit", "chart"}:
        return _check_instance
    if code == "cq-search":
        return _check_instance if level is InteractionLevel.INSTANCE else _check_parameters
    if not directory and level is InteractionLevel.INSTANCE and code in CHANGES:
        return _changed
    if code == "create" and level is InteractionLevel.TYPE and definition.name != "Patient" and not directory:
        return _created
    raise outside_compartment()


def _allow(_service: Service, request: FhirRequest, _definition: Definition, _known: KnownRecord) -> FhirRequest:
    return request


def _check_parameters(
    _service: Service, request: FhirRequest, _definition: Definition, known: KnownRecord
) -> FhirRequest:
    """Let an operation check the patients that its parameters name."""
    return replace(request, within=known.ids)


def _check_instance(_service: Service, request: FhirRequest, definition: Definition, known: KnownRecord) -> FhirRequest:
    """Allow reads of the patient's resources, and of ids that do not exist."""
    stored = known.stored
    # A deleted resource has no body left that could name its patient.
    if stored is not None and not (stored.body and _owns(known, definition, request.id, stored.resource())):
        raise outside_compartment()
    return replace(request, within=known.ids)


def belongs(transaction: Transaction, request: FhirRequest, version: StoredVersion) -> bool:
    """Say whether a version may be shown: to a token for one patient, only what was that patient's.

    A record that was merged into the patient's is that patient's too; a deletion has nothing to show.
    """
    if not request.within or request.type == "Patient" or not version.body:
        return True
    if request.type == "Binary":
        whose = owners(transaction, version.id, version.resource())
        return bool(whose) and whose <= {*request.within}
    named = {local_target(one) for one in _named(version.resource(), KEPT[request.type])}
    patients = {one.removeprefix("Patient/") for one in named if one.startswith("Patient/")}
    standing = {patient: transaction.standing("Patient", patient) for patient in patients}
    survivors = {found.survivor or patient if (found := standing[patient]) else patient for patient in patients}
    return bool(survivors) and survivors <= {*request.within}


def _changed(service: Service, request: FhirRequest, definition: Definition, known: KnownRecord) -> FhirRequest:
    _check_instance(service, request, definition, known)
    element = _element(definition)
    if isinstance(request.body, list):
        # The steps of a JSON Patch: none may move the resource out of the record, or replace it whole.
        if any(_first(step, place) in {element, ""} for step in request.body for place in _changing(step)):
            raise outside_compartment()
    elif request.body is not None:
        _created(service, request, definition, known)
    return replace(request, within=known.ids)


def _created(service: Service, request: FhirRequest, definition: Definition, known: KnownRecord) -> FhirRequest:
    """Allow a body of the patient; the interaction itself reports missing or malformed elements."""
    body = request.body
    if "if-none-exist" in request.headers or not isinstance(body, dict) or body.get("resourceType") == "Parameters":
        raise outside_compartment()
    base_url = service.configuration.base_url
    if definition.name != "Patient":
        named = {relative(one, base_url) or one for one in _named(body, definition)}
        if not _only(known, named):
            raise outside_compartment()
    elif request.id not in known.ids:
        raise outside_compartment()
    return replace(request, within=known.ids)


def _searched(service: Service, request: FhirRequest, definition: Definition, known: KnownRecord) -> FhirRequest:
    """Limit a search to the patient; RefusedError where it names another one, or leads beyond."""
    query = read_page_request(service, request).query
    _searched_freely(service, request, definition, known)
    name, owners = ("_id", {"_id"}) if definition.name == "Patient" else ("patient", OWNERS)
    given = [(key, value) for key, value in query if key.partition(":")[0] in owners]
    base_url = service.configuration.base_url
    for key, value in given:
        target = (relative(value, base_url) or value).removeprefix("Patient/")
        if key not in owners or target not in known.ids:
            raise outside_compartment()
    if request.id:
        # The compartment of a patient, whose id is in the address.
        given = [(name, request.id)]
        if request.id not in known.ids:
            raise outside_compartment()
    if not given and query != request.query:
        # A link to a page of a search that was not this token's.
        raise outside_compartment()
    return request if given else replace(request, query=(*query, (name, known.ids[-1])))


def _searched_freely(
    service: Service, request: FhirRequest, _definition: Definition, _known: KnownRecord
) -> FhirRequest:
    # Also for a link to a page: the client that got it may have had more rights.
    query = read_page_request(service, request).query
    if any("." in key or key.partition(":")[0] in BEYOND for key, _ in query):
        raise outside_compartment()
    return request


def _look_up(transaction: Transaction, request: FhirRequest) -> KnownRecord:
    stored = transaction.get(request.type, request.id) if request.id else None
    whose = owners(transaction, stored.id, stored.resource()) if stored is not None and _lives_in(stored) else ()
    return KnownRecord(_ids(transaction, request.principal.patient), stored, frozenset(whose))


def _ids(transaction: Transaction, patient_id: str) -> tuple[str, ...]:
    """Return the ids of a patient's record: its own, and that of its survivor once it was merged."""
    standing = transaction.standing("Patient", patient_id)
    survivor = standing.survivor if standing is not None else None
    return (patient_id, survivor) if survivor else (patient_id,)


def _lives_in(stored: StoredVersion) -> bool:
    """Return whether a resource's patient is named by other resources."""
    return stored.type == "Binary" and not stored.deleted


def _owns(known: KnownRecord, definition: Definition, resource_id: str, resource: JsonObject) -> bool:
    if definition.name == "Patient":
        return resource_id in known.ids
    if definition.name == "Binary":
        return bool(known.owners) and known.owners <= {*known.ids}
    return _only(known, set(_named(resource, definition)))


def _only(known: KnownRecord, references: set[str]) -> bool:
    """Return whether these references name the patient, and no other one."""
    patients = {local_target(reference) for reference in references if reference.startswith("Patient/")}
    return bool(patients) and patients <= {f"Patient/{one}" for one in known.ids}


def _element(definition: Definition) -> str:
    return definition.patient or (CRITERIA if definition.name == SUBSCRIPTION else "target")


def _named(resource: JsonObject, definition: Definition) -> Iterator[str]:
    for holder in values(resource, _element(definition)):
        if definition.name == SUBSCRIPTION and isinstance(holder, str):
            yield from patients_of(holder)
        elif isinstance(holder, dict) and isinstance(holder.get("reference"), str):
            yield holder["reference"]


def _changing(step: Json) -> tuple[str, ...]:
    """Return the members of a JSON Patch step that name what it changes: `move` also changes its `from`."""
    return ("path", "from") if isinstance(step, dict) and step.get("op") == "move" else ("path",)


def _first(step: Json, place: str) -> str:
    """Return the first element of the path that a step of a JSON Patch changes, '' for the whole."""
    path = step.get(place) if isinstance(step, dict) else None
    return path.strip("/").partition("/")[0] if isinstance(path, str) else ""


def outside_compartment() -> RefusedError:
    """Return the refusal (403) of a resource that is not of the token's patient."""
    text = "The token is for one patient, and this is beyond that patient's record."
    return refuse(Category.FORBIDDEN, text, location="http.Authorization")
