"""Interactions of a plan in a few words, test cases that differ, and what fhir.resources finds wrong with resources."""

from collections.abc import Mapping, Sequence
from typing import Final

from engine.config.channel import Channel
from engine.fhir.schema import FhirVersion
from engine.fhir.secondary_validator import second_opinion
from engine.mapping.authoring.case import NO_CHANNELS, Case, CaseResult, run_cases
from engine.mapping.compile import MappingSource
from engine.ops.views.answer import AnyJson


def failed_cases(
    cases: Sequence[Case], mapping: MappingSource, channels: Mapping[str, Channel] = NO_CHANNELS
) -> list[CaseResult]:
    """Return the cases that come out otherwise than expected, or as a resource that is not valid.

    `channels`: those that cases may name.
    """
    made = run_cases(cases, mapping, channels)
    results = (one._replace(differences=(*one.differences, *invalid(one.found))) for one in made)
    return [result for result in results if result.differences]


def invalid(made: Mapping[str, AnyJson]) -> list[str]:
    """Return what fhir.resources finds wrong with the resources that a plan would create."""
    found = made.get("interactions") or ()
    whole = [one for one in found if "attest" in one or one.get("if_absent", "create").startswith("create")]
    bodies = [body for one in whole if (body := one.get("patient") or one.get("resource"))]
    defects = (one for body in bodies for one in second_opinion(body, FhirVersion.R4))
    return [f"{defect.path}: {defect.text} (fhir.resources)" for defect in defects]


# The name of an interaction in JSON, and what belongs to it; how that is joined, where not by its own name.
INTERACTIONS: Final = (
    ("find", "if_absent"),
    ("keep", "if_absent"),
    ("retire", "within"),
    ("attest",),
    ("follow", "to"),
    ("merge", "into"),
    ("rename", "to"),
    ("move", "from"),
    ("link", "and"),
    ("unlink", "and"),
    ("upsert",),
)
JOINED: Final = {"if_absent": "; if absent: "}


def words_of(one: Mapping[str, AnyJson]) -> str:
    """Return in a few words what an interaction asks: its name, and what belongs to that."""
    name, *more = next(words for words in INTERACTIONS if words[0] in one)
    start = line_of(one[name]) if name == "upsert" else f"{name} {line_of(one[name])}"
    return start + "".join(f"{JOINED.get(word, f' {word} ')}{line_of(one[word])}" for word in more)


def line_of(value: AnyJson) -> str:
    """Return a value of a plan in one line."""
    if isinstance(value, list):
        return "; ".join(line_of(part) for part in value)
    return "yes" if value is True else str(value)
