"""What others expect of their own messages, fact by fact; what every message of the corpus ends in."""

from collections import Counter
from importlib import import_module
from typing import Any

import pytest

from engine.errors import MessageError
from engine.fhir.versions.conversion import convert
from engine.fhir.versions.direction import Direction
from engine.hl7.message import parse
from engine.mapping.authoring.outcome import outcome
from engine.mapping.subject.subject import Disposition
from tests.conftest import CorpusFile
from tests.corpus.agreements import REASONS, REFUSED, Row, agreed, rows
from tests.corpus.origins import mapping_in, pairs

MODELS = {"R4": "fhir.resources.R4B", "STU3": "fhir.resources.STU3"}


def test_every_reason_is_given_and_used() -> None:
    """Each disagreement has a reason, and each reason a disagreement."""
    given = [reason for lines in rows().values() for line in lines for reason in line.reasons]
    assert all(line.reasons for lines in rows().values() for line in lines)
    assert set(given) == set(REASONS)


def test_facts_agree_or_differ_for_a_reason(corpus: tuple[CorpusFile, ...]) -> None:
    """Of every message whose origin ships what it expects: as many facts agree and differ as the table says."""
    table, counts = rows(), agreed()
    found: dict[str, int] = {}
    for pair in pairs(corpus):
        if pair.name in REFUSED:
            assert any(REFUSED[pair.name] in finding for finding in pair.judged["findings"])
            continue
        kinds = sorted({fact.kind for fact in pair.theirs | pair.ours})
        told = {kind: pair.count(kind) for kind in kinds}
        found[pair.name] = sum(both for both, _, _ in told.values())
        reasons = {row.kind: row.reasons for row in table[pair.name]}
        differing = [
            Row(kind, theirs, ours, reasons.get(kind, ())) for kind, (_, theirs, ours) in told.items() if theirs or ours
        ]
        assert tuple(differing) == table[pair.name], pair.name
    assert found == counts


def test_every_message_maps_or_is_refused_by_name(corpus: tuple[CorpusFile, ...]) -> None:
    """With all resources sent: a plan, a named rule or a named refusal; what comes out is valid in both versions."""
    mapping = mapping_in("UTC")
    ended: Counter[str] = Counter()
    invalid: list[str] = []
    for file in corpus:
        try:
            message = parse(file.raw, undecodable="replace")
            made = outcome(mapping, message)
        except MessageError as error:
            ended[type(error).__name__] += 1
            continue
        if made["action"] != Disposition.DELIVER.value:
            assert made["rule"]
            assert made["action"] == Disposition.FILTER.value or made["findings"]
            ended[made["action"]] += 1
            continue
        if "error" in made:
            assert made["error"].split()[0]
            ended["error"] += 1
            continue
        ended["plan"] += 1
        for one in made["interactions"]:
            body = one.get("resource")
            if body and one["if_absent"].startswith("create"):
                invalid += [f"{file.name}: {fault}" for fault in _faults(body)]
    assert invalid == []
    assert ended["plan"] > 200, ended


def _faults(body: dict[str, Any]) -> list[str]:
    faults = []
    for version, package in MODELS.items():
        name = body["resourceType"]
        shown = convert(body, Direction.TO_STU3) if version == "STU3" else body
        try:
            getattr(import_module(f"{package}.{name.lower()}"), name).model_validate(shown)
        except ValueError as error:
            faults.append(f"{name} {version} {error}"[:400])
    return faults


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_refused_by_name(name: str) -> None:
    """What is not ADT is refused, and stands in no line of the table."""
    assert name not in rows()
