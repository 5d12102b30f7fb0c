"""What the service knows of a kept type: its search parameters, whose chart it is in, its dates, who may do what."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from engine.fhir.schema import FhirVersion
from engine.interchange.store.search.criterion import Parameter, ParameterKind, Rank
from engine.interchange.store.search.page import Paging
from engine.interchange.tokens.oauth.role import RoleRule

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
