"""Where the shipped mapping differs from other converters and from HL7's guide, and why: mappings/differences.md.

`python -m tests.mapping.differences` writes the page from differences.yaml.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from engine.config.settings import shipped

DATA: Final = Path(__file__).with_name("differences.yaml")
PAGE: Final = shipped("mappings") / "differences.md"
HEAD: Final = """# Where the mapping differs from others, and why

Generated from `tests/mapping/differences.yaml` by `python -m tests.mapping.differences`. What the shipped mapping makes
of messages that other projects wrote is compared, fact by fact, with what their own converters expect of them
(`tests/corpus/test_agreements.py`, with `--corpus=DIR`). Each difference has a reason here, each reason a difference.
"""
GUIDE: Final = """
## HL7's guide: what is mapped otherwise

The HL7 v2-to-FHIR guide 1.0.0, row by row where this mapping does not follow it, or where the guide leaves open what is
written. The test case of `mappings/tests/` shows it. Field by field: [v2-to-FHIR](v2-to-fhir.md).
"""
FIELDS: Final = """
## HL7's guide: fields that are not mapped

Each field that the guide maps is read by a shipped file, or has its reason here
(`tests/mapping/authoring/test_guide_fields.py`).
"""
COMPONENTS: Final = """
## HL7's guide: components that are not mapped

Of the fields that are read, these components of their data types are not:
"""
SILENT: Final = """
## Where the guide says nothing
"""


class Difference(NamedTuple):
    """How many facts of a kind (`Patient.name`) only they have and only we have of a message, and why."""

    kind: str
    theirs: int
    ours: int
    reasons: tuple[str, ...]


class Comparison(NamedTuple):
    """One message: who says what it becomes, how many facts are equal, and what differs."""

    by: str
    equal: int
    differences: tuple[Difference, ...]


@cache
def data() -> dict[str, Any]:
    """Return the data file."""
    found: dict[str, Any] = yaml.safe_load(DATA.read_text("utf-8"))
    return found


@cache
def comparisons() -> Mapping[str, Comparison]:
    """Return the compared messages by name of their file."""
    return {
        name: Comparison(
            one["by"],
            one["equal"],
            tuple(
                Difference(kind, differ["theirs"], differ["ours"], tuple(differ["reasons"]))
                for kind, differ in one["differ"].items()
            ),
        )
        for name, one in data()["files"].items()
    }


def _table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> Iterator[str]:
    head = list(head)
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    yield from (f"| {' | '.join(str(cell) for cell in row)} |" for row in rows)


def _totals() -> Iterator[tuple[object, ...]]:
    for by, whose in data()["converters"].items():
        of = [one for one in comparisons().values() if one.by == by]
        differences = [difference for one in of for difference in one.differences]
        theirs, ours = (sum(getattr(one, side) for one in differences) for side in ("theirs", "ours"))
        yield f"{by}: {whose}", len(of), sum(one.equal for one in of), theirs, ours


def _elements(kinds: Iterable[str]) -> str:
    """Return element names by type: `Patient: address, name`."""
    found: dict[str, list[str]] = {}
    for kind in sorted(set(kinds)):
        type_, _, element = kind.partition(".")
        found.setdefault(type_, []).append(element)
    return "; ".join(f"{type_}: {', '.join(elements)}" for type_, elements in found.items())


def _reasons() -> Iterator[tuple[object, ...]]:
    for name, reason in data()["reasons"].items():
        uses = [
            (one.by, file, difference.kind)
            for file, one in comparisons().items()
            for difference in one.differences
            if name in difference.reasons
        ]
        counts = [len({file for by, file, _ in uses if by == converter}) for converter in data()["converters"]]
        elements = _elements(kind for _, _, kind in uses)
        yield elements, reason["they"], reason["we"], reason["why"], *counts


def written() -> str:
    """Return the page as it is to be."""
    found = data()
    names = list(found["converters"])
    rows = ((one["row"], one["element"], one["guide"], one["we"], one["why"], one["case"]) for one in found["rows"])
    lines = [
        HEAD,
        *_table(("Converter", "Messages", "Facts equal", "Only theirs", "Only ours"), _totals()),
        "\n## Other converters\n\nThe last columns count the messages in which the reason is met.\n",
        *_table(("Element", "The other converter", "We", "Why", *names), _reasons()),
        GUIDE,
        *_table(("Row", "Element", "The guide", "We", "Why", "Test case"), rows),
        FIELDS,
        *_table(("Fields", "Why not"), ((", ".join(one["of"]), one["why"]) for one in found["fields"])),
        COMPONENTS,
        *_table(("Components", "Of", "Why not"), (tuple(one.values()) for one in found["components"])),
        SILENT,
        *_table(("Of", "Why it is not mapped"), ((one["of"], one["why"]) for one in found["silent"])),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(written(), "utf-8")
