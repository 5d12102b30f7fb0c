"""Rewrites the expectations of test cases by their outcomes; other lines keep their comments."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from engine.mapping.authoring.case import Case, plain

INDENT: Final = "  "
FRAGMENT: Final = "patient"


def rewrite(found: Sequence[tuple[Case, dict[str, Any]]]) -> None:
    """Write the outcomes into the files of cases, for the keys that each case expects."""
    by_file: dict[str, list[tuple[Case, dict[str, Any]]]] = {}
    for case, outcome in found:
        by_file.setdefault(case.source.file, []).append((case, outcome))
    for file, cases in by_file.items():
        lines = Path(file).read_text("utf-8").splitlines()
        for case, outcome in sorted(cases, key=lambda one: -one[0].number):
            _replace(lines, case, outcome)
        Path(file).write_text("\n".join(lines) + "\n", "utf-8")


def _replace(lines: list[str], case: Case, outcome: dict[str, Any]) -> None:
    line, column = case.source.place(("tests", case.number, "expect"))
    start, margin = line - 1, column - 1
    end = start + 1
    while end < len(lines) and (not lines[end].strip() or _margin(lines[end]) > margin):
        end += 1
    while end > start + 1 and not lines[end - 1].strip():
        end -= 1
    block = [" " * margin + "expect:"]
    for key, wanted in case.expect.items():
        value = _chosen(key, wanted, outcome)
        block += _written(key, plain(value), " " * margin + INDENT)
    lines[start:end] = block


def _chosen(key: str, wanted: Any, outcome: dict[str, Any]) -> Any:
    if key == "absent":
        given = {*outcome.get(FRAGMENT, {}), *(one.split()[0] for one in outcome.get("deletes", ()))}
        return [name for name in (wanted if isinstance(wanted, list) else [wanted]) if name not in given]
    if key == FRAGMENT and isinstance(wanted, dict):
        found = outcome.get(FRAGMENT, {})
        return {name: found[name] for name in wanted if name in found}
    return _fragment(wanted, outcome.get(key))


def _fragment(wanted: Any, found: Any) -> Any:
    """Return the expected keys of a map, at any depth; anything else whole."""
    if not isinstance(wanted, dict) or not isinstance(found, dict):
        return found
    return {name: _fragment(part, found[name]) for name, part in wanted.items() if name in found}


def _written(key: str, value: Any, margin: str) -> list[str]:
    if isinstance(value, dict) and value:
        parts = (_written(name, part, margin + INDENT) for name, part in value.items())
        return [f"{margin}{key}:", *(line for lines in parts for line in lines)]
    if isinstance(value, list) and value:
        return [f"{margin}{key}:", *(f"{margin}{INDENT}- {_flow(part)}" for part in value)]
    return [f"{margin}{key}: {_flow(value)}"]


def _flow(value: Any) -> str:
    """Return a value on one line; JSON is YAML."""
    return json.dumps(value, ensure_ascii=False)


def _margin(line: str) -> int:
    return len(line) - len(line.lstrip(" "))
