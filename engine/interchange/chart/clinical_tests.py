"""Clinical tests: reports with who ordered them and their observations."""

from collections.abc import Iterator
from typing import Any, Final

from engine.interchange.ccda.quantities import shown_range
from engine.interchange.chart.coded import CODED, CONCEPT, INTERPRETATION, PROVIDER, provider, status, value_of
from engine.interchange.chart.field import TEXT, Field, Resource, Shape, listed, many, moment, one, several
from engine.interchange.chart.look import Look
from engine.interchange.laboratory.order import requester_of

Json = Any

# So deep may panels hold panels.
DEEPEST: Final = 3


def _coded(resource: Resource, look: Look, at: int) -> Json:
    return CODED[at].read(resource.get("code", {}), look)


def _range(resource: Resource, _look: Look) -> Json:
    told = (one.get("text") or shown_range(one) for one in listed(resource.get("referenceRange")))
    return "; ".join(filter(None, told))


MEASURED: Final = (
    Field("code", TEXT, lambda resource, look: _coded(resource, look, 0)),
    Field("codeSystem", TEXT, lambda resource, look: _coded(resource, look, 1)),
    Field("display", TEXT, lambda resource, look: _coded(resource, look, 2)),
    Field("value", TEXT, lambda resource, _: value_of(resource)[0]),
    Field("unit", TEXT, lambda resource, _: value_of(resource)[1]),
    one("interpretation", INTERPRETATION, "interpretation"),
    Field("referenceRange", TEXT, _range),
    one("absentReason", CONCEPT, "dataAbsentReason"),
)
COMPONENT: Final = Shape("Component", MEASURED)
OBSERVATION: Final = Shape(
    "Observation",
    (*MEASURED, status(), moment("effective", "effective", "issued"), several("components", COMPONENT, "component")),
)


def results_of(report: Resource, look: Look) -> Iterator[Resource]:
    """Yield the observations of a report in order, those of a panel behind it."""
    seen: set[str] = set()

    def below(references: Json, within: Resource, depth: int) -> Iterator[Resource]:
        for reference in listed(references):
            found = look.find(reference, within)
            name = reference.get("reference", "")
            if found is None or found["resourceType"] != "Observation" or name in seen:
                continue
            seen.add(name)
            yield found
            if depth < DEEPEST:
                yield from below(found.get("hasMember"), found if "contained" in found else within, depth + 1)

    yield from below(report.get("result"), report, 1)


def _observations(report: Resource, look: Look) -> Json:
    return [OBSERVATION.of(one, look) for one in results_of(report, look)]


def _orderer(report: Resource, look: Look) -> Json:
    """Return who ordered a test: the requester of what it is based on, of an order also of that as a whole."""
    results = (part for one in results_of(report, look) for part in listed(one.get("basedOn")))
    for reference in (*listed(report.get("basedOn")), *results):
        ordered = look.find(reference, report)
        if ordered is None:
            continue
        named = ordered.get("requester") or requester_of(ordered, look.words.system)[0] or ordered.get("author")
        found = provider(named, look, ordered)
        if found:
            return found
    return None


def _meaning(report: Resource, look: Look) -> Json:
    """Return what all results mean, where those that say so agree; nobody says it of the whole."""
    told = [INTERPRETATION.of(part, look) for one in results_of(report, look) for part in one.get("interpretation", ())]
    codes = {one.get("code", "") for one in told}
    return told[0] if len(codes) == 1 else None


TEST: Final = Shape(
    "ClinicalTest",
    (
        one("test", CONCEPT, "code"),
        status(),
        moment("effective", "effective", "issued"),
        Field("interpretation", INTERPRETATION.link, _meaning),
        Field("orderingProvider", PROVIDER.link, _orderer),
        Field("observations", many(OBSERVATION.link), _observations),
    ),
)
SHAPES: Final = (CONCEPT, INTERPRETATION, PROVIDER, COMPONENT, OBSERVATION)
