"""The segments about what is ordered: ORC, TQ1, OBR, NTE, DG1, OBX and SPM, for each test of an order."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from engine.fhir.json import Json, JsonObject
from engine.interchange.orders.laboratory.message.datatypes import (
    UnwritableError,
    ce,
    components,
    ei,
    joined,
    leaf,
    moment,
    row,
    system,
    xcn,
    xon,
)
from engine.interchange.orders.laboratory.order import LaboratoryOrder, OrderedTest, QuestionAnswer

Resource = JsonObject

# Table 0485 by RequestPriority.
PRIORITIES: Final = {"stat": "S", "asap": "A", "urgent": "A", "routine": "R"}
# Notes of the service itself on an order's progress; laboratories do not get these.
OWN_NOTE: Final = "Transmission: "
LONGEST_STRING: Final = 199


class Habits(NamedTuple):
    """What a version and a kind of message have: TQ1 and SPM, and the result status that says order detail."""

    release: tuple[int, int]
    laboratory: bool
    placer_namespace: str

    @property
    def timing(self) -> bool:
        """Whether priorities are in TQ1."""
        return self.release >= (5, 0)

    @property
    def specimens(self) -> bool:
        """Whether specimens are in SPM."""
        return self.laboratory and self.release >= (5, 0)

    @property
    def detail(self) -> str:
        """The status of an answer, OBX-11."""
        return "O" if self.release >= (4, 0) else "F"


def segments(order: LaboratoryOrder, habits: Habits) -> Iterator[str]:
    """Yield the segments of all tests; the order's own notes are at the first."""
    for number, test in enumerate(order.tests, 1):
        priority = PRIORITIES.get(test.resource.get("priority") or order.resource.get("priority", ""), "")
        yield _orc(order, test, priority, habits)
        if habits.timing and priority:
            yield row("TQ1", {1: "1", 9: priority})
        yield _obr(order, test, number, priority, habits)
        notes = [*test.resource.get("note", ()), *(order.resource.get("note", ()) if number == 1 else ())]
        texts = (str(note.get("text", "")) for note in notes)
        for at, text in enumerate((one for one in texts if one and not one.startswith(OWN_NOTE)), 1):
            yield row("NTE", {1: str(at), 2: "P", 3: leaf(text)})
        for at, reason in enumerate(test.reasons, 1):
            yield _dg1(reason, at)
        answered = (_obx(answer, habits) for answer in test.answers)
        for at, fields in enumerate((one for one in answered if one), 1):
            yield row("OBX", {1: str(at), **fields})
        if habits.specimens:
            for at, specimen in enumerate(test.specimens, 1):
                yield _spm(specimen, at, habits)


def _orc(order: LaboratoryOrder, test: OrderedTest, priority: str, habits: Habits) -> str:
    return row(
        "ORC",
        {
            1: "NW",
            2: ei(test.id, habits.placer_namespace),
            4: ei(order.id, habits.placer_namespace),
            7: "" if habits.timing or not priority else f"^^^^^{priority}",
            9: moment(order.resource.get("authoredOn") or order.resource.get("meta", {}).get("lastUpdated")),
            12: xcn(order.requester),
            21: xon(order.facility) if habits.release >= (3, 1) else "",
        },
    )


def _obr(order: LaboratoryOrder, test: OrderedTest, number: int, priority: str, habits: Habits) -> str:
    start, end = _collected(test)
    uncoded = "; ".join(reason["text"] for reason in test.reasons if reason.get("text") and not reason.get("coding"))
    return row(
        "OBR",
        {
            1: str(number),
            2: ei(test.id, habits.placer_namespace),
            4: ce(test.resource.get("code")),
            5: priority,
            6: moment(_requested(test.resource)),
            7: moment(start),
            8: moment(end),
            13: leaf(uncoded),
            15: "" if habits.specimens else _source(test),
            16: xcn(order.requester),
            27: "" if habits.timing or not priority else f"^^^^^{priority}",
            31: ce(next((reason for reason in test.reasons if reason.get("coding")), None)),
        },
    )


def _requested(test: Resource) -> Json:
    period = test.get("occurrencePeriod", {})
    return test.get("occurrenceDateTime") or period.get("start") or test.get("authoredOn")


def _collected(test: OrderedTest) -> tuple[Json, Json]:
    """Return when the first specimen was collected: from and to, or the moment."""
    for specimen in test.specimens:
        held = specimen.get("collection", {})
        period = held.get("collectedPeriod", {})
        if "collectedDateTime" in held or period:
            return held.get("collectedDateTime") or period.get("start"), period.get("end")
    return None, None


def _source(test: OrderedTest) -> str:
    """Return what kind of specimen it is, and from which part of the body, as before there was SPM (OBR-15)."""
    if not test.specimens:
        return ""
    specimen = test.specimens[0]
    kind, site = (
        ce(one).replace("^", "&") for one in (specimen.get("type"), specimen.get("collection", {}).get("bodySite"))
    )
    return joined("^", (kind, "", "", site))


def _dg1(reason: Resource, number: int) -> str:
    coding: Resource = next(iter(reason.get("coding", ())), {})
    text = reason.get("text") or coding.get("display", "")
    method = system(coding.get("system", "")) if coding else ""
    return row("DG1", {1: str(number), 2: method, 3: ce(reason), 4: leaf(text), 6: "W"})


def _obx(answer: QuestionAnswer, habits: Habits) -> dict[int, str]:
    """Return the fields of an answer, none for an empty one."""
    code, text = answer.question.get("code", ""), answer.question.get("display") or answer.text
    kind, value, unit = _value(answer.type, answer.value)
    if not value:
        return {}
    return {
        2: kind,
        3: components(code, text, system(answer.question.get("system", ""))),
        4: str(answer.number) if answer.number else "",
        5: value,
        6: unit,
        11: habits.detail,
    }


def _value(kind: str, value: Json) -> tuple[str, str, str]:
    """Return type, text and unit of an answer; UnwritableError for one that no message can say: it is not left out."""
    if kind not in WRITTEN:
        raise UnwritableError(f"no message can say an answer of type {kind}")
    return WRITTEN[kind](value)


def _coding(value: Resource) -> tuple[str, str, str]:
    return "CE", components(value.get("code"), value.get("display"), system(value.get("system", ""))), ""


def _quantity(value: Resource) -> tuple[str, str, str]:
    code = value.get("code") or value.get("unit")
    unit = components(code, value.get("unit"), system(value.get("system", ""))) if code else ""
    return "NM", leaf(value.get("value")), unit


def _string(value: str) -> tuple[str, str, str]:
    plain = len(value) <= LONGEST_STRING and value.isprintable()
    return "ST" if plain else "TX", leaf(value), ""


# Type, text and unit of an answer, by its type in FHIR.
WRITTEN: Final[Mapping[str, Callable[[Any], tuple[str, str, str]]]] = {
    "Coding": _coding,
    "Boolean": lambda value: ("CE", "Y^Yes^HL70136" if value else "N^No^HL70136", ""),
    "Quantity": _quantity,
    "Date": lambda value: ("DT", moment(value), ""),
    "DateTime": lambda value: ("TS", moment(value), ""),
    "Time": lambda value: ("TM", str(value).replace(":", ""), ""),
    "Decimal": lambda value: ("NM", leaf(value), ""),
    "Integer": lambda value: ("NM", leaf(value), ""),
    "String": _string,
    "Uri": _string,
}


def _spm(specimen: Resource, number: int, habits: Habits) -> str:
    held = specimen.get("collection", {})
    period = held.get("collectedPeriod", {})
    identifiers = [specimen.get("accessionIdentifier", {}), *specimen.get("identifier", ())]
    name = next((identifier["value"] for identifier in identifiers if identifier.get("value")), "")
    quantity = held.get("quantity", {})
    times = [moment(held.get("collectedDateTime") or period.get("start")), moment(period.get("end"))]
    return row(
        "SPM",
        {
            1: str(number),
            2: ei(name, habits.placer_namespace).replace("^", "&") if name else "",
            4: ce(specimen.get("type")),
            8: ce(held.get("bodySite")),
            12: joined("^", (leaf(quantity.get("value")), leaf(quantity.get("unit")).replace("^", "&"))),
            17: joined("^", times),
        },
    )
