"""A text where a map belongs, a list where a text does: told with its place, whatever the key, and never a crash."""

import json
from pathlib import Path
from typing import Any

import pytest

from engine.config.settings import shipped
from engine.errors import ConfigurationError
from engine.mapping.authoring.case import channel_of
from engine.mapping.compile import compile_mapping, load, read
from engine.mapping.files.document import Problems, read_documents
from engine.mapping.files.kinds import BELOW, EVENT_TABLE, OF


@pytest.mark.parametrize("given", [["a"], {"a": "b"}, "a"], ids=["list", "map", "text"])
def test_every_key_of_another_kind_is_told(tmp_path: Path, given: Any) -> None:
    """All of them at once, each where it stands, with the kind that would do."""
    (tmp_path / "resources").mkdir()
    text = json.dumps({"resource": "Basic", **dict.fromkeys(OF, given)}, indent=1)
    (tmp_path / "resources/basic.yaml").write_text(text, "utf-8")
    with pytest.raises(ConfigurationError) as caught:
        load([tmp_path, shipped("mappings")], "adt")
    told = {one.path for one in caught.value.problems if one.expected.startswith("expected a") and "found" in one.found}
    wrong = {key for key, kinds in OF.items() if not isinstance(given, kinds)} - {"elements", "merged"}
    assert wrong
    assert wrong <= told


@pytest.mark.parametrize(
    "body", [{}, {"identity": {"keys": "PV1-19"}}, {"elements": None}, {"from": "XCN", "kinds": {"Payor": 3}}]
)
def test_a_file_of_almost_nothing_is_told(tmp_path: Path, body: dict[str, Any]) -> None:
    """What is left out altogether ends in problems, too."""
    (tmp_path / "resources").mkdir()
    (tmp_path / "resources/basic.yaml").write_text(json.dumps({"resource": "Basic", **body}), "utf-8")
    with pytest.raises(ConfigurationError, match=r"basic\.yaml"):
        load([tmp_path, shipped("mappings")], "adt")


SMALL = {
    "adt.yaml": "mapping: adt\nevents: {A01: {do: upsert patient}}\n",
    "resources/patient.yaml": "resource: Patient\nelements: {birthDate: PID-7 | date}\n",
}


def _holding(pattern: str, part: Any) -> Any:
    """Return a value in which a part stands at a pattern: under the name X, in a list of one."""
    for step in reversed(pattern.split(".")):
        part = [part] if step == "#" else {"X" if step == "*" else step: part}
    return part


@pytest.mark.parametrize("given", [["a"], {"a": "b"}, "a"], ids=["list", "map", "text"])
@pytest.mark.parametrize(("head", "file", "patterns"), [
    ("resource: Basic", "resources/basic.yaml", BELOW), ("mapping: adt", "adt.yaml", EVENT_TABLE),
], ids=["resource", "event table"])  # fmt: skip
def test_every_part_of_another_kind_is_told(
    tmp_path: Path, head: str, file: str, patterns: dict[str, tuple[type, ...]], given: Any
) -> None:
    """The same of what stands further down: each in a file of its own, where it stands, and never a crash."""
    for pattern, kinds in patterns.items():
        if isinstance(given, kinds):
            continue
        key, _, name = head.partition(": ")
        value = {key: name, **_holding(pattern, given)}
        problems = Problems()
        files = {tmp_path / name: text for name, text in SMALL.items()} | {tmp_path / file: json.dumps(value)}
        read_documents([tmp_path], "adt", problems, files)
        told = {one.path for one in problems.found if one.expected.startswith("expected a")}
        assert pattern.replace("*", "X").replace("#", "0") in told
        with pytest.raises(ConfigurationError):
            compile_mapping(read([tmp_path], "adt", files), channel_of({}))


def test_a_list_of_alternatives_of_which_none_is_one_is_told(tmp_path: Path) -> None:
    """Each at its place; what stands there makes nothing."""
    wrong = "resource: Patient\nelements: {birthDate: {first: ['PID-7 | |', '| |']}}\n"
    files = {tmp_path / name: text for name, text in SMALL.items()} | {tmp_path / "resources/patient.yaml": wrong}
    with pytest.raises(ConfigurationError, match=r"birthDate\.first"):
        compile_mapping(read([tmp_path], "adt", files), channel_of({}))
