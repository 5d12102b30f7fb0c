"""Every type that is kept, one line of facts each: search parameters, chart, care dates, roles."""

from dataclasses import replace
from typing import Final

from engine.interchange.oauth.role import Action
from engine.interchange.patient.index import PATIENT, index_patient
from engine.interchange.resource.definition import CHART_PAGES, DIRECTORY_PAGES, Definition, every_type, rows_of
from engine.interchange.resource.rows import indexer
from engine.interchange.search.criterion import Kind, Parameter, Rank
from engine.interchange.search.page import Paging
from engine.interchange.store.indexing import digest
from engine.interchange.store.transaction import Indexer

STATUS: Final = Parameter("status", Kind.TOKEN, "", Rank.MOST, ("status",), implied="http://hl7.org/fhir/")
CODE: Final = Parameter("code", Kind.TOKEN, "", Rank.SOME, ("code",))
CATEGORY: Final = Parameter("category", Kind.TOKEN, "", Rank.MANY, ("category",))
TYPE: Final = Parameter("type", Kind.TOKEN, "", Rank.MANY, ("type",))
ENCOUNTER: Final = Parameter("encounter", Kind.REFERENCE, "", Rank.ONE, ("encounter",), targets=("Encounter",))
IDENTIFIER: Final = Parameter("identifier", Kind.IDENTIFIER, "", Rank.ONE, ("identifier",))
SUBJECT: Final = Parameter("subject", Kind.REFERENCE, "patient", Rank.ONE, targets=("Patient",))
CLINICAL_STATUS: Final = Parameter("clinical-status", Kind.TOKEN, "", Rank.MOST, ("clinicalStatus",))
ADDRESS_USE: Final = Parameter(
    "address-use", Kind.TOKEN, "", Rank.MOST, ("address.use",), implied="http://hl7.org/fhir/"
)
PERFORMERS: Final = ("Practitioner", "PractitionerRole", "Organization", "Patient", "RelatedPerson")
# Prefixes that DocumentReference takes although it does not tell them apart (specification, generic search rule 4).
LENIENT: Final = (("ne", "eq"), ("sa", "ge"), ("eb", "le"))


def _date(*elements: str, name: str = "date") -> Parameter:
    return Parameter(name, Kind.DATE, "", Rank.FEW, elements)


def _to(name: str, *targets: str, element: str = "", rank: Rank = Rank.FEW) -> Parameter:
    return Parameter(name, Kind.REFERENCE, "", rank, (element or name,), targets=targets)


def _text(name: str, *elements: str) -> Parameter:
    return Parameter(name, Kind.STRING, "", Rank.SOME, elements)


def _code(name: str, element: str, rank: Rank = Rank.MANY) -> Parameter:
    return Parameter(name, Kind.TOKEN, "", rank, (element,))


def _address() -> tuple[Parameter, ...]:
    """Return the parameters of an address: each part, any of them, and what it is for."""
    elements = {"city": "city", "state": "state", "postalcode": "postalCode", "country": "country"}
    parts = tuple(_text(f"address-{name}", f"address.{element}") for name, element in elements.items())
    rest = ("address.line", "address.district", "address.text")
    return (*parts, replace(_text("address", *rest), also=tuple(one.name for one in parts)), ADDRESS_USE)


def _named(type_name: str, parameters: tuple[Parameter, ...]) -> tuple[Parameter, ...]:
    """Return parameters with the names of their rows; `rows` and `also` are those of others of the type, until now."""
    own = tuple(
        replace(
            one,
            rows=rows_of(type_name, one.rows or one.name),
            also=tuple(rows_of(type_name, other) for other in one.also),
        )
        for one in parameters
    )
    return (*own, *every_type(type_name))


def _patients(element: str) -> tuple[Parameter, ...]:
    """Return `patient`, and `subject` where the element is called so."""
    return (_patient(element), SUBJECT) if element == "subject" else (_patient(element),)


def _patient(element: str, name: str = "patient") -> Parameter:
    return Parameter(name, Kind.REFERENCE, "", Rank.ONE, (element,), targets=("Patient",))


def _chart(
    name: str,
    patient: str,
    care: tuple[str, ...],
    *parameters: Parameter,
    scoped: bool = True,
    creating: Action = Action.CLINICAL,
    statuses: frozenset[str] = frozenset(),
) -> Definition:
    numbers = () if any(one.name == IDENTIFIER.name for one in parameters) else (IDENTIFIER,)
    own = _named(name, (*_patients(patient), *numbers, *parameters))
    return Definition(
        name,
        own,
        reading=Action.CHART,
        writing=Action.CLINICAL,
        creating=creating,
        patient=patient,
        scoped=scoped,
        care=care,
        statuses=statuses,
    )


def _billing(
    name: str, patient: str, *parameters: Parameter, scoped: bool = False, care: tuple[str, ...] = ()
) -> Definition:
    own = _named(name, (*_patients(patient), IDENTIFIER, *parameters))
    return Definition(
        name,
        own,
        reading=Action.DIRECTORY,
        writing=Action.BILLING,
        creating=Action.BILLING,
        patient=patient,
        scoped=scoped,
        care=care,
    )


def _directory(name: str, *parameters: Parameter, paging: Paging = CHART_PAGES) -> Definition:
    own = _named(name, (IDENTIFIER, *parameters))
    return Definition(
        name, own, reading=Action.DIRECTORY, writing=Action.CLINICAL, creating=Action.CLINICAL, paging=paging
    )


def _lenient(definition: Definition) -> Definition:
    """Return a type whose dates take prefixes that they do not tell apart."""
    dates = {Kind.DATE, Kind.UPDATED}
    own = (replace(one, prefixes=LENIENT) if one.kind in dates else one for one in definition.parameters)
    return replace(definition, parameters=tuple(own))


# In the order in which $everything returns them.
CHART: Final = (
    _chart(
        "Encounter",
        "subject",
        ("period",),
        _date("period"),
        TYPE,
        STATUS,
        _code("class", "class"),
        _code("discharge-disposition", "hospitalization.dischargeDisposition"),
        _to("location", "Location", element="location.location", rank=Rank.SOME),
        _to("participant", *PERFORMERS, element="participant.individual", rank=Rank.SOME),
        _to("service-provider", "Organization", element="serviceProvider", rank=Rank.MANY),
        _to("part-of", "Encounter", element="partOf"),
    ),
    _chart(
        "Condition",
        "subject",
        ("onset[x]", "recordedDate"),
        CODE,
        ENCOUNTER,
        CATEGORY,
        CLINICAL_STATUS,
        _date("onset[x]", name="onset-date"),
        _date("abatement[x]", name="abatement-date"),
        replace(_date("recordedDate", name="recorded-date"), stu3="asserted-date"),
    ),
    _chart(
        "Observation",
        "subject",
        ("effective[x]", "issued"),
        CATEGORY,
        CODE,
        _date("effective[x]"),
        ENCOUNTER,
        STATUS,
        _to("performer", *PERFORMERS, rank=Rank.SOME),
        _to("based-on", "ServiceRequest", element="basedOn"),
    ),
    _chart(
        "MedicationRequest",
        "subject",
        ("authoredOn",),
        STATUS,
        _code("intent", "intent", Rank.MOST),
        _date("authoredOn", name="authoredon"),
        ENCOUNTER,
        _to("requester", *PERFORMERS, rank=Rank.SOME),
        creating=Action.PRESCRIBE,
        statuses=frozenset({"active", "completed"}),
    ),
    _chart(
        "MedicationStatement", "subject", ("effective[x]", "dateAsserted"), replace(ENCOUNTER, elements=("context",))
    ),
    _chart("AllergyIntolerance", "patient", ("onset[x]", "recordedDate"), CODE, CLINICAL_STATUS),
    _chart(
        "DiagnosticReport",
        "subject",
        ("effective[x]", "issued"),
        _to("based-on", "ServiceRequest", element="basedOn"),
        CATEGORY,
        CODE,
        _date("effective[x]"),
        ENCOUNTER,
        STATUS,
        _to("result", "Observation"),
        _to("performer", *PERFORMERS, rank=Rank.SOME),
        scoped=False,
    ),
    _chart("Immunization", "patient", ("occurrence[x]", "recorded"), _date("occurrence[x]"), STATUS),
    _chart("Procedure", "subject", ("performed[x]",), ENCOUNTER, CODE, _date("performed[x]"), STATUS),
    _chart("CarePlan", "subject", ("period", "created"), CATEGORY, _date("period"), STATUS),
    _chart(
        "Goal",
        "subject",
        ("start[x]", "statusDate"),
        replace(_code("lifecycle-status", "lifecycleStatus", Rank.MOST), stu3="status"),
        _date("target.due[x]", name="target-date"),
        _code("description", "description", Rank.SOME),
    ),
    _chart(
        "ServiceRequest",
        "subject",
        ("occurrence[x]", "authoredOn"),
        CATEGORY,
        STATUS,
        CODE,
        _date("authoredOn", name="authored"),
        ENCOUNTER,
        _to("requester", *PERFORMERS, rank=Rank.SOME),
    ),
    _billing("Coverage", "beneficiary", _patient("beneficiary", "beneficiary"), scoped=True, care=("period",)),
    _lenient(
        _chart(
            "DocumentReference",
            "subject",
            ("context.period", "date"),
            replace(IDENTIFIER, elements=("masterIdentifier", "identifier")),
            replace(CATEGORY, stu3="class"),
            _to("custodian", "Organization", rank=Rank.SOME),
            replace(_date("date"), repeatable=True),
            _date("context.period", name="period"),
            _to("encounter", "Encounter", element="context.encounter"),
            _to("author", *PERFORMERS, rank=Rank.SOME),
            TYPE,
            STATUS,
            scoped=False,
        )
    ),
    _chart("FamilyMemberHistory", "patient", ("date",)),
)
ORGANIZATION: Final = _directory(
    "Organization",
    _text("name", "name", "alias"),
    TYPE,
    *_address(),
    _to("partof", "Organization", element="partOf"),
    Parameter(
        "ordering-enabled",
        Kind.TOKEN,
        "",
        Rank.MANY,
        ("extension(organization-orderingEnabled).value[x]",),
        default="false",
        codes=("true", "false"),
    ),
    paging=DIRECTORY_PAGES,
)
SUPPORTING: Final = (
    _directory(
        "Practitioner",
        _text("family", "name.family"),
        _text("given", "name.given"),
        replace(_text("name", "name.text", "name.prefix", "name.suffix"), also=("family", "given")),
    ),
    ORGANIZATION,
    _directory(
        "Location",
        _text("name", "name", "alias"),
        *_address(),
        _to("organization", "Organization", element="managingOrganization", rank=Rank.SOME),
        _to("partof", "Location", element="partOf"),
    ),
)
OTHERS: Final = (
    _directory(
        "PractitionerRole",
        _to("practitioner", "Practitioner"),
        _to("organization", "Organization", rank=Rank.SOME),
        _to("location", "Location", rank=Rank.SOME),
        _code("specialty", "specialty"),
    ),
    _billing("RelatedPerson", "patient", _text("name", "name.family", "name.given", "name.text")),
    _billing("Account", "subject"),
    Definition(
        "Binary",
        _named("Binary", (_patient("securityContext"),)),
        reading=Action.CHART,
        writing=Action.CLINICAL,
        creating=Action.CLINICAL,
        patient="securityContext",
    ),
    Definition(
        "Provenance",
        _named(
            "Provenance",
            (_patient("target"), Parameter("target", Kind.REFERENCE, "", Rank.ONE, ("target",), targets=("Patient",))),
        ),
        reading=Action.CHART,
        writing=Action.CLINICAL,
        creating=Action.CLINICAL,
    ),
)
KEPT: Final = {one.name: one for one in (PATIENT, *CHART, *SUPPORTING, *OTHERS)}
INDEXERS: Final[dict[str, Indexer]] = {
    **{name: indexer(definition) for name, definition in KEPT.items()},
    "Patient": index_patient,
}


# What the rows of all resources are made by: a database with rows made by something else is indexed again.
EDITION: Final = digest(
    f"{one.kind} {one.rows} {one.elements} {one.system} {one.default}"
    for own in KEPT.values()
    for one in own.parameters
)
