"""Reasons: every code that the engine says of an entry, a destination or itself, with what it means and what to do.

The one table is `engine/ops/docs/reasons.md`; commands, pages and alerts show its lines.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from engine.errors import UsageError
from engine.ops.views.answer import Answer
from engine.ops.views.handbook import FOLDER

TABLE: Final = FOLDER / "reasons.md"
FAMILY: Final = "*"
IDLE: Final = "Nothing."


class Reason(Answer, facts=True):
    """One line: `can_wait` says whether it can wait until morning.

    `kinds`: refused (at the door), held, rejected, filtered, delivered, retry, note, flag, look-up, notice, alert,
    batch, wire, pause and ability (of a destination).
    """

    code: str
    kinds: tuple[str, ...]
    can_wait: bool
    meaning: str
    next_step: str


@dataclass(frozen=True, slots=True)
class Symptom:
    """What somebody sees who knows no code, and the codes to begin with."""

    text: str
    codes: tuple[str, ...]


def _rows() -> tuple[list[str], list[str]]:
    """Return the rows of both tables of the file: the codes, and the symptoms."""
    codes, _, symptoms = TABLE.read_text(encoding="utf-8").partition("\n## ")
    first, second = ([row for row in part.splitlines() if row.startswith("| ")][1:] for part in (codes, symptoms))
    return first, second


def _read() -> Iterator[Reason]:
    for row in _rows()[0]:
        code, kinds, wait, meaning, step = (cell.strip() for cell in row.strip("|").split("|"))
        yield Reason(code=code, kinds=tuple(kinds.split(", ")), can_wait=wait == "yes", meaning=meaning, next_step=step)


def _symptoms() -> Iterator[Symptom]:
    for row in _rows()[1]:
        text, codes = (cell.strip() for cell in row.strip("|").split("|"))
        yield Symptom(text, tuple(re.findall(r"\[([a-z0-9*-]+)\]", codes)))


SYMPTOMS: Final = tuple(_symptoms())
REASONS: Final[Mapping[str, Reason]] = {reason.code: reason for reason in _read()}
_FAMILIES: Final = tuple(reason for code, reason in REASONS.items() if code.endswith(FAMILY))


def reason_of(code: str) -> Reason:
    """Return the line of a code, which may have a place or a count behind it (`unmapped-code PID-16`).

    A code that is in no table is the destination's own, or one of a site's mapping: its line says so.
    """
    name = code.partition(" ")[0].rstrip(":")
    found = REASONS.get(name) or next((one for one in _FAMILIES if name.startswith(one.code[:-1])), None)
    return found or Reason(
        code=name,
        kinds=(),
        can_wait=False,
        meaning="A code of the destination's own, or of this site's mapping.",
        next_step="See the attempts with `messages show`, and the site's mapping.",
    )


def text_of(reason: Reason) -> str:
    """Return a line as one sentence after the other: what it means, whether it can wait, what to do next."""
    wait = "It can wait until morning." if reason.can_wait else "It cannot wait until morning."
    return f"{reason.meaning} {wait} Next: {reason.next_step}" if reason.next_step != IDLE else reason.meaning


def lines(code: str = "", kind: str = "") -> list[Reason]:
    """Return the line of one code, or all lines of a kind; UsageError where no line is of that kind."""
    rows = [reason_of(code)] if code else [one for one in REASONS.values() if not kind or kind in one.kinds]
    if not rows:
        raise UsageError(f"no reason is of the kind {kind!r}: see `adt-engine reasons`")
    return rows
