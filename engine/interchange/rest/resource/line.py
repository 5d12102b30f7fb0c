"""What a line of the catalogue is made of: search parameters by the elements they read, types by who may do what."""

from dataclasses import replace
from typing import Final

from engine.interchange.rest.resource.definition import CHART_PAGES, Definition, every_type, rows_of
from engine.interchange.store.search.criterion import Parameter, ParameterKind, Rank
from engine.interchange.store.search.page import Paging
from engine.interchange.tokens.oauth.role import RoleRule

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
    return (*parts, replace(text("address", *rest), also=tuple(one.name for one in parts)), ADDRESS_USE)


def patient(element: str, name: str = "patient") -> Parameter:
    """Return the parameter of the patient whom an element names."""
    return Parameter(name, ParameterKind.REFERENCE, "", Rank.ONE, (element,), targets=("Patient",))


def named(type_name: str, parameters: tuple[Parameter, ...]) -> tuple[Parameter, ...]:
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
    numbers = () if any(one.name == IDENTIFIER.name for one in parameters) else (IDENTIFIER,)
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
