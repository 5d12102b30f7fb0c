"""Criteria: `Type` or `Type?parameter=value&...`, by the search parameters of the type, or the name of an event."""

from typing import Final, NamedTuple
from urllib.parse import parse_qsl, urlencode

from engine.fhir.schema import FhirVersion
from engine.fhir.versions.names import name_in
from engine.interchange.kernel.outcome import Category, RefusedError, refuse, repeatable
from engine.interchange.rest.resource.catalogue import KEPT
from engine.interchange.store.references import relative
from engine.interchange.store.search.criterion import ParameterKind, SearchQuery
from engine.interchange.store.search.parse import parse_search
from engine.interchange.store.search.text import split
from engine.interchange.tokens.role import RoleRule

PLACE: Final = "Subscription.criteria"
# Types that a subscription can watch.
TYPES: Final = (
    *("AllergyIntolerance", "CarePlan", "Condition", "Coverage", "DiagnosticReport", "DocumentReference", "Encounter"),
    *("Goal", "Immunization", "MedicationRequest", "MedicationStatement", "Observation", "Patient", "Procedure"),
    *("RequestGroup", "ServiceRequest"),
)
COMPLETED: Final = "Patient.P360"
ASYNC_ENDED: Final = "OperationOutcome?async=true"
ADMIN_NOTIFY: Final = "Bundle?message.event=admin-notify"
CLINICAL_ALERTS: Final = "Bundle?clinicalAlerts=true"
# Events other than writes, with the types that a subscriber must be allowed to read.
SYNTHETIC: Final = {
    COMPLETED: ("Patient",),
    ASYNC_ENDED: (),
    ADMIN_NOTIFY: ("Patient", "Encounter"),
    CLINICAL_ALERTS: ("Patient", "Encounter"),
}
LONGEST: Final = 2048
MOST_PARAMETERS: Final = 50


class Criteria(NamedTuple):
    """What a subscription asks for: R4's type ('' for a synthetic event), the text that is kept of it, the types read.

    `search` is None for a synthetic event. The text does without the service's own address.
    """

    type: str
    text: str
    search: SearchQuery | None
    reads: tuple[str, ...]

    @property
    def actions(self) -> tuple[tuple[str, RoleRule], ...]:
        """Each type that is read, with what a role must permit for it."""
        return tuple((one, KEPT[one].reading) for one in self.reads)


def parse_criteria(text: str, version: FhirVersion, base_url: str = "") -> Criteria:
    """Return what criteria ask for; RefusedError (422) for an unknown type, parameter or value."""
    if text in SYNTHETIC:
        return Criteria("", text, None, SYNTHETIC[text])
    if len(text) > LONGEST:
        raise _wrong(f"The criteria have more than {LONGEST} characters.")
    name, mark, query = text.partition("?")
    type_name = next((one for one in TYPES if name_in(version, one) == name), "")
    if not type_name:
        raise _wrong(f"{repeatable(name)} is not a type that a subscription can watch: {', '.join(names(version))}.")
    try:
        pairs = parse_qsl(query, keep_blank_values=True, errors="strict", max_num_fields=MOST_PARAMETERS)
    except ValueError as error:
        raise _wrong("The criteria are not parameters of a search (name=value&name=value).") from error
    if mark and not pairs:
        raise _wrong(f"Behind {repeatable(name)}? no parameter is given.")
    parameters = KEPT[type_name].search_parameters(version)
    try:
        search = parse_search(type_name, parameters, pairs, base_url, version)
    except RefusedError as refusal:
        raise _wrong(" ".join(issue.diagnostics for issue in refusal.issues)) from refusal
    references = {key for key, one in parameters.items() if one.kind is ParameterKind.REFERENCE}
    local = [(key, _local(value, base_url) if key.partition(":")[0] in references else value) for key, value in pairs]
    kept = f"{name}?{urlencode(local)}" if local else name
    return Criteria(type_name, kept, search, (type_name,))


def names(version: FhirVersion) -> tuple[str, ...]:
    """Return the types that a subscription can watch, by a version's names, and the synthetic events."""
    return (*(name_in(version, one) for one in TYPES), *SYNTHETIC)


def _local(value: str, base_url: str) -> str:
    return ",".join(relative(one, base_url) or one for one in split(value, ","))


def _wrong(text: str) -> RefusedError:
    return refuse(Category.INVALID, text, location=PLACE)
