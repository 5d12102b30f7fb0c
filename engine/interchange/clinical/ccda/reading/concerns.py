"""What allergies and problems have in common: their concern act, their status, and comments."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from engine.fhir.json import JsonObject
from engine.interchange.clinical.ccda.reading.chart import ReadChart
from engine.interchange.clinical.ccda.reading.element import Element, every, first, related, said
from engine.interchange.clinical.ccda.reading.parties import author, authored

ALLERGY_STATUS: Final = "http://terminology.hl7.org/CodeSystem/allergyintolerance-clinical"
PROBLEM_STATUS: Final = "http://terminology.hl7.org/CodeSystem/condition-clinical"
# LOINC codes of the status of an allergy or a problem, and of a comment.
STATUS: Final = "33999-4"
COMMENT: Final = "48767-8"
# SNOMED CT codes of a status.
STATUSES: Final[Mapping[str, str]] = {
    "55561003": "active",
    "73425007": "inactive",
    "413322009": "resolved",
    "246455001": "recurrence",
    "263855007": "relapse",
    "277022003": "remission",
}
# What the status of the concern says where the observation has none of its own.
CONCERNS: Final[Mapping[str, str]] = {
    "active": "active",
    "new": "active",
    "suspended": "inactive",
    "aborted": "inactive",
    "completed": "inactive",
}
ALLERGIES: Final = frozenset({"active", "inactive", "resolved"})
ENDED: Final = frozenset({"inactive", "remission", "resolved"})


@dataclass(frozen=True, slots=True)
class Concern:
    """What a Concern Act says of every observation in it; '' and nothing for what it does not say."""

    status: str
    recorded: str
    recorder: JsonObject
    comments: tuple[str, ...]


def observations_of(chart: ReadChart, act: Element) -> Iterator[tuple[Concern, Element]]:
    """Yield the observations of a concern, each with the concern, or a single observation."""
    if act.tag.endswith("observation"):
        yield Concern("", "", {}, ()), act
        return
    concern = Concern(
        CONCERNS.get(said(act, "code", "statusCode"), ""),
        authored(chart, act),
        author(chart, act),
        tuple(comments(chart, act)),
    )
    for observation in related(act):
        yield concern, observation


def clinical_status(concern: Concern, observation: Element, system: str, *, ended: bool) -> JsonObject:
    """Return the clinical status: the observation's own, else the concern's; never active once it has ended."""
    values = [first(one, "value") for one in related(observation) if said(one, "code", "code") == STATUS]
    code = next((STATUSES[said(value)] for value in values if said(value) in STATUSES), concern.status)
    if system == ALLERGY_STATUS and code not in ALLERGIES:
        code = "active"
    if ended and code not in ENDED:
        code = "resolved"
    return {"coding": [{"system": system, "code": code or "active"}]}


def comments(chart: ReadChart, statement: Element) -> Iterator[str]:
    """Return the comments that a statement has."""
    for act in related(statement, name="act"):
        if said(act, "code", "code") == COMMENT:
            yield from filter(None, (chart.text(text) for text in every(act, "text")))


def notes(chart: ReadChart, statement: Element, concern: Concern | None = None) -> list[JsonObject]:
    """Return the comments of a statement and of its concern as Annotations."""
    found = (*comments(chart, statement), *(concern.comments if concern else ()))
    return [{"text": one} for one in dict.fromkeys(found)]
