"""The shape of a search's answer: order, included resources, the part of each resource, and the total."""

from dataclasses import dataclass
from typing import Final

from engine.fhir.schema import FhirVersion
from engine.interchange.kernel.outcome import Category, refuse
from engine.interchange.rest.resource.catalogue import KEPT
from engine.interchange.rest.resource.includes import Include, read_includes
from engine.interchange.rest.resource.projection import Projection, read_projection
from engine.interchange.store.search.page import TOTALS, ResultPage
from engine.interchange.store.search.sort import SortKey, parse_sort


@dataclass(frozen=True, slots=True)
class AnswerShape:
    """The shape of an answer: `part` None for whole resources, `order` empty for that of creation.

    `counted`: with a total; `count_only`: with nothing else.
    """

    part: Projection | None = None
    order: tuple[SortKey, ...] = ()
    includes: tuple[Include, ...] = ()
    counted: bool = True
    count_only: bool = False


PLAIN: Final = AnswerShape()


def read_shape(page: ResultPage, type_name: str, version: FhirVersion) -> AnswerShape:
    """Return the shape that a page's parameters ask for; RefusedError for what is not there."""
    if not page.form:
        return PLAIN
    given = dict(page.form)
    total = given.get("_total", "accurate")
    if total not in TOTALS:
        raise refuse(Category.BAD_VALUE, f"_total is one of {', '.join(TOTALS)}.", location="http._total")
    if "_sort" in given and page.cursored:
        text = "_sort goes with paging by _offset: a walk by cursor has the order of creation."
        raise refuse(Category.BAD_VALUE, text, location="http._sort")
    count_only = given.get("_summary") == "count"
    return AnswerShape(
        part=read_projection(page.form, type_name, version),
        order=parse_sort(given["_sort"], KEPT[type_name].search_parameters(version)) if "_sort" in given else (),
        includes=read_includes(page.form, type_name, version),
        counted=total != "none" or count_only or not page.count,
        count_only=count_only,
    )
