"""The categories of a chart: the address of each, the FHIR types that it is made of, and the shape of its items."""

from dataclasses import dataclass
from typing import Final

from engine.interchange.chart.clinical_tests import TEST
from engine.interchange.chart.field import Shape


@dataclass(frozen=True, slots=True)
class ChartCategory:
    """One category; of `shapes` there is one for each FHIR type, by its name in R4. `title` says what it holds."""

    path: str
    title: str
    shapes: tuple[tuple[str, Shape], ...]

    @property
    def types(self) -> tuple[str, ...]:
        """The FHIR types that its items are made of."""
        return tuple(name for name, _ in self.shapes)

    def shape_of(self, type_name: str) -> Shape:
        """Return the shape of the items that one of its types makes."""
        return dict(self.shapes)[type_name]


CATEGORIES: Final = (
    ChartCategory("clinical-tests", "Reports of laboratory and other tests", (("DiagnosticReport", TEST),)),
)
