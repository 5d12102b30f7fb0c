"""Clinical tests: reports with who ordered them and their observations."""

from collections.abc import Iterator
from typing import Final

from engine.fhir.json import Json, JsonObject
from engine.interchange.clinical.ccda.quantities import shown_range
from engine.interchange.orders.belonging import order_id_of
from engine.interchange.orders.laboratory.order import requester_of
from engine.interchange.orders.order import NAME as ORDER
from engine.interchange.web.chart.coded import (
    CODED,
    CONCEPT,
    INTERPRETATION,
    PROVIDER,
    provider,
    status,
    unit_code_of,
    value_of,
)
from engine.interchange.web.chart.field import (
    TEXT,
    ChartField,
    ChartReader,
    ObjectShape,
    Resource,
    listed,
    many,
    moment,
    one,
    several,
)

# Maximum nesting of panels.
DEEPEST: Final = 3


def _coded(resource: Resource, reader: ChartReader, at: int) -> Json:
    return CODED[at].read(resource.get("code", {}), reader)


def _range(resource: Resource, _reader: ChartReader) -> Json:
    ranges = (one.get("text") or shown_range(one) for one in listed(resource.get("referenceRange")))
    return "; ".join(filter(None, ranges))


MEASURED: Final = (
    ChartField("code", TEXT, lambda resource, reader: _coded(resource, reader, 0)),
    ChartField("codeSystem", TEXT, lambda resource, reader: _coded(resource, reader, 1)),
    ChartField("display", TEXT, lambda resource, reader: _coded(resource, reader, 2)),
    ChartField("text", TEXT, lambda resource, reader: _coded(resource, reader, 3)),
    ChartField("value", TEXT, lambda resource, _: value_of(resource)[0]),
    ChartField("unit", TEXT, lambda resource, _: value_of(resource)[1]),
    ChartField("unitCode", TEXT, lambda resource, _: unit_code_of(resource)),
    one("interpretation", INTERPRETATION, "interpretation"),
    ChartField("referenceRange", TEXT, _range),
    one("absentReason", CONCEPT, "dataAbsentReason"),
)
COMPONENT: Final = ObjectShape("Component", MEASURED)
OBSERVATION: Final = ObjectShape(
    "Observation",
    (
        *MEASURED,
        several("categories", CONCEPT, "category"),
        status(),
        moment("effective", "effective", "issued"),
        several("components", COMPONENT, "component"),
    ),
)


def results_of(report: Resource, reader: ChartReader) -> Iterator[Resource]:
    """Yield the observations of a report in order, the members of a panel after the panel."""
    seen: set[str] = set()

    def below(references: JsonObject | None, within: Resource, depth: int) -> Iterator[Resource]:
        for reference in listed(references):
            observation = reader.find(reference, within)
            name = reference.get("reference", "")
            if observation is None or observation["resourceType"] != "Observation" or name in seen:
                continue
            seen.add(name)
            yield observation
            if depth < DEEPEST:
                yield from below(
                    observation.get("hasMember"), observation if "contained" in observation else within, depth + 1
                )

    yield from below(report.get("result"), report, 1)


def _observations(report: Resource, reader: ChartReader) -> Json:
    return [OBSERVATION.of(result, reader) for result in results_of(report, reader)]


def _orderer(report: Resource, reader: ChartReader) -> Json:
    """Return who ordered a test: the requester in `basedOn` of the report, or of one of its results."""
    results = (part for result in results_of(report, reader) for part in listed(result.get("basedOn")))
    for reference in (*listed(report.get("basedOn")), *results):
        ordered = reader.find(reference, report)
        requester = _asked_by(ordered, reader) if ordered is not None else None
        if requester:
            return requester
    return None


def _asked_by(ordered: Resource, reader: ChartReader) -> Json:
    """Return the requester of a test, else the requester of its order, else the author of that order."""
    own = provider(ordered.get("requester"), reader, ordered)
    system = reader.words.system
    order_id = order_id_of(dict(ordered), system)
    order = reader.find({"reference": f"{ORDER}/{order_id}"}) if order_id else ordered
    if own or order is None or order["resourceType"] != ORDER:
        return own
    return provider(requester_of(dict(order), system)[0] or order.get("author"), reader, order)


def _meaning(report: Resource, reader: ChartReader) -> Json:
    """Return the interpretation that all results with one share; None if they differ."""
    meanings = [
        INTERPRETATION.of(part, reader) for one in results_of(report, reader) for part in one.get("interpretation", ())
    ]
    codes = {meaning.get("code", "") for meaning in meanings}
    return meanings[0] if len(codes) == 1 else None


TEST: Final = ObjectShape(
    "ClinicalTest",
    (
        one("test", CONCEPT, "code"),
        several("categories", CONCEPT, "category"),
        status(),
        moment("effective", "effective", "issued"),
        ChartField("interpretation", INTERPRETATION.link, _meaning),
        ChartField("orderingProvider", PROVIDER.link, _orderer),
        ChartField("observations", many(OBSERVATION.link), _observations),
    ),
)
SHAPES: Final = (COMPONENT, OBSERVATION)
