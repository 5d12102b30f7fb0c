"""What others expect of their own messages, fact by fact; what every message of the corpus ends in."""

from collections import Counter
from importlib import import_module
from typing import Any

from engine.errors import MessageError
from engine.fhir.versions.conversion import convert
from engine.fhir.versions.direction import Direction
from engine.hl7.message import parse
from engine.mapping.authoring.outcome import outcome
from engine.mapping.subject.subject import Disposition
from tests.conftest import CorpusFile
from tests.corpus.origins import mapping_in, pairs
from tests.mapping.differences import Comparison, Difference, comparisons, data

MODELS = {"R4": "fhir.resources.R4B", "STU3": "fhir.resources.STU3"}


def test_facts_agree_or_differ_for_a_reason(corpus: tuple[CorpusFile, ...]) -> None:
    """Of every message whose origin ships what it expects: as many facts agree and differ as is recorded."""
    recorded, refused, found = comparisons(), data()["refused"], {}
    for pair in pairs(corpus):
        if pair.name in refused:
            assert any(refused[pair.name] in finding for finding in pair.judged["findings"])
            continue
        known = recorded[pair.name]
        reasons = {one.kind: one.reasons for one in known.differences}
        counts = {kind: pair.count(kind) for kind in sorted({fact.kind for fact in pair.theirs | pair.ours})}
        differences = tuple(
            Difference(kind, theirs, ours, reasons.get(kind, ()))
            for kind, (_, theirs, ours) in counts.items()
            if theirs or ours
        )
        equal = sum(both for both, _, _ in counts.values())
        found[pair.name] = Comparison(known.by, equal, differences)
        assert found[pair.name] == known, pair.name
    assert found.keys() == recorded.keys()


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
