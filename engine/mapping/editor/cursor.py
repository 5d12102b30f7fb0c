"""The place of a cursor in a mapping file, found by margins and braces: a file that is being typed is seldom YAML."""

import re
from typing import Final, NamedTuple

KEY: Final = re.compile(
    r"(?P<margin>\s*(?:- +)*)(?:\"(?P<a>[^\"]+)\"|'(?P<b>[^']+)'|(?P<c>[^\s:#'\"{\[-][^:#{\[]*?))\s*:(?:\s|$)"
)
MARGIN: Final = re.compile(r"[\s-]*")
# A key of a flow map, and what is typed after it: `{each: PID-5, as: X`.
FLOW_KEY: Final = re.compile(r"[{,]\s*([\w.\[\]-]+):(?:\s+([^,{}]*))?$")
# Text whose commas separate nothing.
ENCLOSED: Final = re.compile(r"\([^()]*\)?|\[[^\[\]]*\]?|'[^']*'?|\"[^\"]*\"?")
# What of a word is before the cursor, and after it.
BEFORE: Final = re.compile(r"[\w.^\[\]=-]*$")
AFTER: Final = re.compile(r"[\w.^\[\]=-]*")


class EditorPosition(NamedTuple):
    """A position in a text: line and column, both from 1; a column counts characters."""

    line: int
    column: int


class TextCursor(NamedTuple):
    """What is around a position: the keys above it, the text of its value before it, and the word that it is in.

    `value`: from the key on, without the word; None where a key is being typed. `start`: the column where the word
    begins. `rest`: what of the word is behind the position.
    """

    keys: tuple[str, ...]
    value: str | None
    word: str
    rest: str
    start: int

    @property
    def whole_word(self) -> str:
        """The word that the position is in."""
        return self.word + self.rest


def cursor_at(text: str, position: EditorPosition) -> TextCursor:
    """Return what is around a position; a position outside of the text is one at its end."""
    lines = text.split("\n")
    number = min(max(position.line, 1), len(lines)) - 1
    line = lines[number].rstrip("\r")
    before = line[: max(position.column - 1, 0)]
    found, after = BEFORE.search(before), AFTER.match(line, len(before))
    word = found[0] if found else ""
    lead = before[: len(before) - len(word)]
    inside, value = _in_line(lead)
    margin = len(MARGIN.match(lead)[0]) if (own := KEY.match(lead)) is None else len(own["margin"])  # type: ignore[index]
    keys = (*_above(lines[:number], margin, lead), *inside)
    return TextCursor(keys, value, word, after[0] if after else "", len(lead) + 1)


def _in_line(lead: str) -> tuple[tuple[str, ...], str | None]:
    """Return the keys of a line before the cursor, and the text after the last one; None where none has a value."""
    own = KEY.match(lead)
    keys = (_key(own),) if own else ()
    value = lead[own.end() :] if own else _item(lead)
    text = value or lead
    flow = text.rfind("{")
    if flow <= text.rfind("}"):
        return keys, None if value is None else _text(value)
    inner = FLOW_KEY.search(ENCLOSED.sub(lambda match: ";" * len(match[0]), text), flow)
    return ((*keys, inner[1]), _text(text[inner.start(2) :] if inner[2] else "")) if inner else (keys, None)


def _item(lead: str) -> str | None:
    """Return the value of a list's item, `- PID-5 | `; None for what may become a key."""
    return lead.lstrip()[2:] if lead.lstrip().startswith("- ") and lead.lstrip()[2:].strip() else None


def _text(value: str) -> str:
    """Return a value without the quote or bracket that begins it."""
    return value.lstrip().removeprefix("[").lstrip().removeprefix('"')


def _above(lines: list[str], margin: int, lead: str) -> tuple[str, ...]:
    """Return the keys of the lines above that hold a line with a margin, outermost first."""
    found: list[str] = []
    for line in reversed(lines):
        if margin <= 0 and not (lead.startswith("- ") and not found):
            break
        own = KEY.match(line)
        if own and len(own["margin"]) < margin:
            found.insert(0, _key(own))
            margin = len(own["margin"])
    return tuple(found)


def _key(match: re.Match[str]) -> str:
    return str(match["a"] or match["b"] or match["c"])
