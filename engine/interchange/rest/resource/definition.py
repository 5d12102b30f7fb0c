"""What the service knows of a kept type (search parameters, chart, dates, roles), and the values of its parameters."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import parse_qsl

from engine.fhir.schema import FhirVersion
from engine.interchange.store.search.criterion import Parameter, ParameterKind, Rank
from engine.interchange.store.search.page import Paging
from engine.interchange.store.search.text import split
from engine.interchange.tokens.role import RoleRule

# The index rows of every resource with a care date, for $everything.
CARE: Final = "care"


# The specification's pages of Patient and Organization, and those of every other type.
DIRECTORY_PAGES: Final = Paging(strict=True, depth=10_000, cursor=True)
CHART_PAGES: Final = Paging()


@dataclass(frozen=True, slots=True)
class Definition:
    """One kept type, by its name in R4.

    `patient` is the element that names whose chart a resource is in, '' where it is in none; of a `charted` type each
    must name a patient, and `scoped` types are only searched within a chart. `care` are the elements of the clinical
    date, the first one that has a date counts.
    `statuses` are those that a resource may be created with, any where empty.
    """

    name: str
    parameters: tuple[Parameter, ...]
    reading: RoleRule
    writing: RoleRule
    creating: RoleRule
    patient: str = ""
    charted: bool = False
    scoped: bool = False
    care: tuple[str, ...] = ()
    paging: Paging = CHART_PAGES
    statuses: frozenset[str] = frozenset()

    def search_parameters(self, version: FhirVersion) -> Mapping[str, Parameter]:
        """Return the search parameters by their names in a version."""
        return {one.stu3 if version is FhirVersion.STU3 and one.stu3 else one.name: one for one in self.parameters}

    @property
    def patient_rows(self) -> str:
        """The name of the index rows that say whose chart a resource is in."""
        return f"{self.name}.patient"


def rows_of(type_name: str, parameter: str) -> str:
    """Return the name of the index rows of a search parameter of a type."""
    return f"{type_name}.{parameter}"


def every_type(type_name: str) -> tuple[Parameter, ...]:
    """Return the search parameters that every type has."""
    return (
        Parameter("_id", ParameterKind.ID, "", Rank.ONE),
        Parameter("_lastUpdated", ParameterKind.UPDATED, "", Rank.MOST),
        *(
            Parameter(
                f"_{name}",
                ParameterKind.TOKEN,
                rows_of(type_name, f"_{name}"),
                Rank.MANY,
                (f"meta.{name}",),
                repeatable=True,
            )
            for name in ("tag", "security")
        ),
    )


STATUS: Final = Parameter("status", ParameterKind.TOKEN, "", Rank.MOST, ("status",), implied="http://hl7.org/fhir/")
CODE: Final = Parameter("code", ParameterKind.TOKEN, "", Rank.SOME, ("code",))
CATEGORY: Final = Parameter("category", ParameterKind.TOKEN, "", Rank.MANY, ("category",))
TYPE: Final = Parameter("type", ParameterKind.TOKEN, "", Rank.MANY, ("type",))
ENCOUNTER: Final = Parameter("encounter", ParameterKind.REFERENCE, "", Rank.ONE, ("encounter",), targets=("Encounter",))
IDENTIFIER: Final = Parameter("identifier", ParameterKind.IDENTIFIER, "", Rank.ONE, ("identifier",))
SUBJECT: Final = Parameter("subject", ParameterKind.REFERENCE, "patient", Rank.ONE, targets=("Patient",))
ADDRESS_USE: Final = Parameter(
    "address-use", ParameterKind.TOKEN, "", Rank.MOST, ("address.use",), implied="http://hl7.org/fhir/"
)
PERFORMERS: Final = ("Practitioner", "PractitionerRole", "Organization", "Patient", "RelatedPerson")


def date(*elements: str, name: str = "date") -> Parameter:
    """Return a parameter of the dates in some elements."""
    return Parameter(name, ParameterKind.DATE, "", Rank.FEW, elements)


def to(name: str, *targets: str, element: str = "", rank: Rank = Rank.FEW) -> Parameter:
    """Return a parameter of references to some types, at the element that it is named after unless another is given."""
    return Parameter(name, ParameterKind.REFERENCE, "", rank, (element or name,), targets=targets)


def text(name: str, *elements: str) -> Parameter:
    """Return a parameter of the texts in some elements."""
    return Parameter(name, ParameterKind.STRING, "", Rank.SOME, elements)


def code(name: str, element: str, rank: Rank = Rank.MANY) -> Parameter:
    """Return a parameter of the codes in an element."""
    return Parameter(name, ParameterKind.TOKEN, "", rank, (element,))


def uri(name: str, rank: Rank = Rank.ONE) -> Parameter:
    """Return a parameter of the address or version in the element of its name."""
    return Parameter(name, ParameterKind.URI, "", rank, (name,))


def number(name: str, element: str) -> Parameter:
    """Return a parameter of the identifiers in an element."""
    return Parameter(name, ParameterKind.IDENTIFIER, "", Rank.ONE, (element,))


def address() -> tuple[Parameter, ...]:
    """Return the parameters of an address: each part, any of them, and what it is for."""
    elements = {"city": "city", "state": "state", "postalcode": "postalCode", "country": "country"}
    parts = tuple(text(f"address-{name}", f"address.{element}") for name, element in elements.items())
    rest = ("address.line", "address.district", "address.text")
    return (*parts, replace(text("address", *rest), also=tuple(part.name for part in parts)), ADDRESS_USE)


def patient(element: str, name: str = "patient") -> Parameter:
    """Return the parameter of the patient whom an element names."""
    return Parameter(name, ParameterKind.REFERENCE, "", Rank.ONE, (element,), targets=("Patient",))


def named(type_name: str, parameters: tuple[Parameter, ...]) -> tuple[Parameter, ...]:
    """Return parameters with the names of their rows; `rows` and `also` are those of others of the type, until now."""
    own = tuple(
        replace(
            parameter,
            rows=rows_of(type_name, parameter.rows or parameter.name),
            also=tuple(rows_of(type_name, other) for other in parameter.also),
        )
        for parameter in parameters
    )
    return (*own, *every_type(type_name))


def chart(
    name: str,
    element: str,
    care: tuple[str, ...],
    *parameters: Parameter,
    scoped: bool = True,
    charted: bool = True,
    creating: RoleRule = RoleRule.CLINICAL,
    statuses: frozenset[str] = frozenset(),
) -> Definition:
    """Return a clinical type whose patient an element names, for each resource of it where it is `charted`."""
    numbers = () if any(parameter.name == IDENTIFIER.name for parameter in parameters) else (IDENTIFIER,)
    own = named(name, (*_patients(element), *numbers, *parameters))
    return Definition(
        name,
        own,
        reading=RoleRule.CHART,
        writing=RoleRule.CLINICAL,
        creating=creating,
        patient=element,
        charted=charted,
        scoped=scoped,
        care=care,
        statuses=statuses,
    )


def billing(
    name: str, element: str, *parameters: Parameter, charted: bool = False, care: tuple[str, ...] = ()
) -> Definition:
    """Return a type that those who bill write, too; what is `charted` is searched by patient only."""
    own = named(name, (*_patients(element), IDENTIFIER, *parameters))
    return Definition(
        name,
        own,
        reading=RoleRule.DIRECTORY,
        writing=RoleRule.BILLING,
        creating=RoleRule.BILLING,
        patient=element,
        charted=charted,
        scoped=charted,
        care=care,
    )


def directory(name: str, *parameters: Parameter, paging: Paging = CHART_PAGES) -> Definition:
    """Return a type of nobody's chart, which everybody reads."""
    own = named(name, (IDENTIFIER, *parameters))
    return Definition(
        name, own, reading=RoleRule.DIRECTORY, writing=RoleRule.CLINICAL, creating=RoleRule.CLINICAL, paging=paging
    )


def _patients(element: str) -> tuple[Parameter, ...]:
    """Return `patient`, and `subject` where the element is called so."""
    return (patient(element), SUBJECT) if element == "subject" else (patient(element),)


SUBSCRIPTION: Final = "Subscription"
ENDPOINT: Final = "channel.endpoint"
CRITERIA: Final = "criteria"
# Without these nothing could be sent.
WHOLE: Final = ("status", CRITERIA, "channel.type", ENDPOINT)
OWNERS: Final = frozenset({"patient", "subject", "beneficiary"})
SUBSCRIBING: Final = Definition(
    SUBSCRIPTION,
    named(
        SUBSCRIPTION,
        (
            STATUS,
            code("type", "channel.type"),
            code("payload", "channel.payload"),
            Parameter("url", ParameterKind.URI, "", Rank.ONE, (ENDPOINT,)),
            text(CRITERIA, CRITERIA),
        ),
    ),
    reading=RoleRule.SUBSCRIBE,
    writing=RoleRule.SUBSCRIBE,
    creating=RoleRule.SUBSCRIBE,
)


def patients_of(criteria: str) -> tuple[str, ...]:
    """Return the patients to whom criteria are limited, as `Patient/id`; none where they are not.

    Each parameter that names a patient counts: a client for one patient may name no other in any of them.
    """
    name, _, query = criteria.partition("?")
    owners = {"_id"} if name == "Patient" else OWNERS
    values = [one for key, value in parse_qsl(query) if key in owners for one in split(value, ",")]
    return tuple(f"Patient/{one.rpartition('/')[2]}" for one in values)
