"""Differences of two mappings over messages: each kind of change, counted by message, with an example."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.config.settings import shipped
from engine.hl7.message import Message
from engine.mapping.authoring.case import channel_of
from engine.mapping.authoring.difference import Comparison, DifferenceGroup, DifferenceKind
from engine.mapping.compile import Mapping, MappingSource, compile_mapping, load

Make = Callable[..., Message]
Author = Callable[..., Path]
HEAD = "resource: Patient\nextends: shipped/patient\nelements:\n"
SEX = "table: administrative-sex\nextends: shipped/administrative-sex\n"
PID = "PID|1||1^^^RVB^MR||A^B||19840229|F|||||555-1~555-2||en|M"


def _groups(source: MappingSource, folder: Path, *messages: Message) -> list[DifferenceGroup]:
    compared = Comparison(_on(source), _on(load([folder, shipped("mappings")], "adt")))
    for number, message in enumerate(messages, 1):
        compared.add(f"message {number}", message)
    assert compared.found.messages == len(messages)
    return compared.found.groups()


def _on(source: MappingSource) -> Mapping:
    return compile_mapping(source, channel_of({}))


@pytest.mark.parametrize(
    ("files", "told"),
    [
        pytest.param(
            {"resources__patient": HEAD + "  birthDate:\n"},
            [(DifferenceKind.REMOVED, "Patient.birthDate", "1984-02-29", None)],
            id="removed",
        ),
        pytest.param(
            {"resources__patient": HEAD + "  language: PID-38.1\n"},
            [],
            id="nothing of this message",
        ),
        pytest.param(
            {"resources__patient": HEAD + "  birthDate: PID-7 | date | unless PID-8 = F\n"},
            [(DifferenceKind.REMOVED, "Patient.birthDate", "1984-02-29", None)],
            id="condition",
        ),
        pytest.param(
            {"tables__administrative-sex": SEX + "codes: {F: other}\n"},
            [(DifferenceKind.CHANGED, "Patient.gender", "female", "other")],
            id="changed",
        ),
        pytest.param(
            {"resources__patient": HEAD + "  language: en | when PID-7\n"},
            [(DifferenceKind.ADDED, "Patient.language", None, "en")],
            id="added",
        ),
        pytest.param(
            {"adt": "mapping: adt\nextends: shipped/adt\nevents: {A31: {do: update patient, rule: new-rule}}\n"},
            [(DifferenceKind.RULE, "A31", "update-person", "new-rule")],
            id="rule",
        ),
        pytest.param(
            {"resources__patient": HEAD + "  communication: [{language: PID-15 | coded(language), slice: tongue}]\n"},
            [(DifferenceKind.PLAN, "upsert Patient.slices", "communication PID-15", "communication tongue")],
            id="plan",
        ),
    ],
)
def test_each_kind_of_change(
    source: MappingSource, message: Make, author: Author, files: dict[str, str], told: list[tuple[Any, ...]]
) -> None:
    """What a site's file changes is told by kind and element, with what was before and after."""
    found = _groups(source, author(**files), message("A31", PID), message("A31", PID))
    ours = [(one.kind, one.path, one.before, one.after) for one in found if not one.path.endswith(("text", "system"))]
    assert ours == told
    assert all((one.count, one.example) == (2, "message 1") for one in found)


def test_a_filtered_event_loses_its_interactions(source: MappingSource, message: Make, author: Author) -> None:
    """An event that is skipped from now on changes its rule, its action and what is asked of the server."""
    folder = author(adt="mapping: adt\nextends: shipped/adt\nevents: {A31: {skip: not-here}}\n")
    found = {group.kind: (group.before, group.after) for group in _groups(source, folder, message("A31", PID))}
    assert found[DifferenceKind.ACTION] == ("deliver", "filter")
    assert found[DifferenceKind.STEP] == ("asked", None)


def test_a_refusal_is_told(source: MappingSource, message: Make, author: Author) -> None:
    """A table that refuses what it lacks turns a message into a refusal."""
    folder = author(
        **{"tables__marital-status": "table: marital-status\nextends: shipped/marital-status\nunmapped: refuse\n"}
    )
    found = _groups(source, folder, message("A31", PID.replace("|M", "|ZZ")))
    assert (DifferenceKind.ERROR, "A31", None, "unmapped-code PID-16") in [
        (one.kind, one.path, one.before, one.after) for one in found
    ]
