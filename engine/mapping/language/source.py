"""Generated Python source, compiled once: values are bound to names, never written out."""

from functools import lru_cache
from types import CodeType
from typing import Any, Final, NamedTuple

from engine.hl7.leaf import NULL
from engine.hl7.segment import BITS
from engine.mapping.language.reading import EVERYTHING

MAX_SOURCES: Final = 4096
NAME: Final = "made"
INDENT: Final = "    "


class SegmentNames(NamedTuple):
    """The variables of a segment in the source: segment, mask of its filled fields, their texts, and `plain`."""

    segment: str
    filled: str
    texts: str
    plain: str


AT_HAND: Final = SegmentNames("scope", "filled", "texts", "plain")


class GeneratedSource:
    """The source of one function as it is written, and the values that are bound to its names."""

    def __init__(self) -> None:
        self._head: dict[str, None] = {}
        self._lines: list[str] = []
        self.depth = 2
        self._values: dict[str, Any] = {"NULL": NULL}
        self._known: dict[int, str] = {}
        self._segments: dict[str, SegmentNames] = {}
        self._variables = 0

    def function(self) -> Any:
        """Compile the source; each function has its own copy of the code, for the interpreter's specialization."""
        head = [f"{INDENT}def {NAME}(scope, reading):", *(INDENT * 2 + line for line in self._head)]
        source = "\n".join([f"def bound({', '.join(self._values)}):", *head, *self._lines, f"{INDENT}return {NAME}"])
        names: dict[str, Any] = {}
        exec(_code(source), names)  # noqa: S102 -- no authored text in it, only names that are made here
        made = names["bound"](*self._values.values())
        made.__code__ = made.__code__.replace()
        return made

    def variable(self) -> str:
        """Return a new variable's name."""
        self._variables += 1
        return f"v{self._variables}"

    def head(self, text: str) -> None:
        """Add a line at the beginning, once."""
        self._head[text] = None

    def line(self, text: str) -> None:
        """Add a line."""
        self._lines.append(INDENT * self.depth + text)

    def under(self, head: str) -> "Below":
        """Add a line, with the lines of the returned context below it; an empty head adds no line."""
        if head:
            self.line(head)
        return Below(self, bool(head))

    def name(self, value: Any) -> str:
        """Return the name that a value is bound to."""
        known = self._known.get(id(value))
        if known is None:
            known = self._known[id(value)] = f"c{len(self._values)}"
            self._values[known] = value
        return known

    def segment(self, name: str) -> SegmentNames:
        """Return the variables of the first segment of a name; its `filled` is 0 if there is none."""
        known = self._segments.get(name)
        if known is None:
            known = self._segments[name] = SegmentNames(*[self.variable() for _ in SegmentNames._fields])
            segment, filled, texts, plain = known
            self.head(f"{segment} = reading.first.get({self.name(name)})")
            self.head(f"if {segment} is None: {filled} = 0")
            self.head(f"else: {filled} = {segment}.filled; {texts} = {segment}.texts; {plain} = {segment}.plain")
        return known

    def at_hand(self) -> SegmentNames:
        """Return the variables of the segment at hand."""
        self.head("filled = scope.filled")
        self.head("texts = scope.texts")
        self.head("plain = scope.plain")
        return AT_HAND

    def filled(self, mask: int) -> str:
        """Return a test that one of several parts at hand is filled."""
        self.head("filled = scope.filled")
        return f"filled & {mask}"

    def if_filled(self, mask: int) -> str:
        """Return the head of such a test; empty if there is nothing to test."""
        return "" if mask == EVERYTHING else f"if {self.filled(mask)}:"

    def cell(self, number: int, mask: int) -> str:
        """Return a component at hand; `mask`: one of its bits is known to be filled."""
        self.head("first = scope.first")
        cell, bit = f"first[{number - 1}]", BITS[number]
        return cell if mask == bit else f"{cell} if {self.filled(bit)} else None"


class Below:
    """The context of the lines below a head; a generator for it took a tenth of the time of compiling."""

    __slots__ = ("_levels", "_source")

    def __init__(self, source: GeneratedSource, levels: int) -> None:
        self._source = source
        self._levels = levels

    def __enter__(self) -> None:
        self._source.depth += self._levels

    def __exit__(self, *_: object) -> None:
        self._source.depth -= self._levels


@lru_cache(maxsize=MAX_SOURCES)
def _code(source: str) -> CodeType:
    """Return the code of a source; templates of the same shape are compiled once."""
    return compile(source, f"<{__name__}>", "exec")
