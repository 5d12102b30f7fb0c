"""Python source that is written line by line and compiled once: values are bound to names, never written out.

Paths write themselves: a component of the repetition at hand, a leaf, a repetition or every repetition of a field.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from types import CodeType
from typing import Any, Final

from engine.hl7.cells import BITS
from engine.hl7.leaf import NULL
from engine.mapping.language.node import Cell, Chosen, Every, Leaf, Place, Text, Whole
from engine.mapping.language.reading import EVERYTHING

MAX_SOURCES: Final = 4096
NAME: Final = "made"
INDENT: Final = "    "


class Source:
    """The source of one function as it is written, and the values that are bound to its names."""

    def __init__(self) -> None:
        self._head: dict[str, None] = {}
        self._lines: list[str] = []
        self._depth = 2
        self._values: dict[str, Any] = {"NULL": NULL}
        self._known: dict[int, str] = {}
        self._variables = 0

    def function(self) -> Any:
        """Compile what was written; its own copy of the code, which the interpreter suits to what it meets."""
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
        self._lines.append(INDENT * self._depth + text)

    @contextmanager
    def under(self, head: str) -> Iterator[None]:
        """Add a line, and what is written in this context below it; no line for an empty one."""
        if not head:
            yield
            return
        self.line(head)
        self._depth += 1
        yield
        self._depth -= 1

    def name(self, value: Any) -> str:
        """Return the name that a value is bound to."""
        known = self._known.get(id(value))
        if known is None:
            known = self._known[id(value)] = f"c{len(self._values)}"
            self._values[known] = value
        return known


class PathSource(Source):
    """The source of a function that reads paths; `mask`: one of its bits is known to be filled."""

    def _filled(self, mask: int) -> str:
        self.head("filled = scope.filled")
        return f"filled & {mask}"

    def _if_filled(self, mask: int) -> str:
        return "" if mask == EVERYTHING else f"if {self._filled(mask)}:"

    def _cell(self, number: int, mask: int) -> str:
        self.head("first = scope.first")
        cell, bit = f"first[{number - 1}]", BITS[number]
        return cell if mask == bit else f"{cell} if {self._filled(bit)} else None"

    def _set_cell(self, node: Cell, to: str, mask: int) -> None:
        self.line(f"{to} = {self._cell(node.number, mask)}")

    def _leaf(self, node: Leaf, to: str, _: int) -> None:
        self.line(f"{to} = scope.leaf({node.component}, {node.subcomponent})")

    def _whole(self, node: Whole, to: str, _: int) -> None:
        if not node.component:
            self.line(f"{to} = scope")
            return
        self.line(f"{to} = scope.subcomponents({node.component})")
        self._held(to, "None")

    @contextmanager
    def _field(self, node: Place, to: str) -> Iterator[str]:
        """Write what finds a field, and notes its place; what is done where it holds anything follows in this context.

        Yields the name of the segment.
        """
        segment = "scope" if node.at_hand else self.variable()
        self.line(f"{to} = None")
        if not node.at_hand:
            self.line(f"{segment} = reading.first.get({self.name(node.segment)})")
        with self.under(f"if {segment} is not None and {segment}.field({node.field}):"):
            self.line(f"reading.place = {self.name(node.place)}")
            yield segment

    def _text(self, node: Text, to: str, _: int) -> None:
        with self._field(node, to) as segment:
            if not node.mere:
                with self.under(f"if reading.repeat in {segment}.field({node.field}):"):
                    self.line(f"reading.once.append({self.name(node.place)})")
            self.line(f"{to} = {segment}.leaf({', '.join(map(str, node[3:7]))})")
            with self.under(f"if {to}:"):
                self.line(f"{to} = {to}.strip() or None")

    def _held(self, to: str, empty: str) -> None:
        """Write what makes cells in which nothing is valued NULL, where something in them is deleted, or else empty."""
        with self.under(f"if not any({to}.first):"):
            self.line(f"{to} = NULL if NULL in {to}.first else {empty}")

    def _chosen(self, node: Chosen, to: str, _: int) -> None:
        every, number = self.variable(), max(node.repetition, 1)
        with self._field(node, to) as segment:
            self.line(f"{every} = {segment}.cells({node.field})")
            if node.where:
                pairs = f"zip({segment}.repetitions({node.field}), {every})"
                fits = f"one.leaf({node.where}) == {self.name(node.equals)}"
                self.line(f"{to} = next((cells for one, cells in {pairs} if {fits}), None)")
            else:
                self.line(f"{to} = {every}[{number - 1}] if len({every}) >= {number} else None")
            if not node.where and not node.repetition:
                with self.under(f"if len({every}) > 1:"):
                    self.line(f"reading.once.append({self.name(node.place)})")
            with self.under(f"if {to} is not None:"):
                if node.component:
                    self.line(f"{to} = {to}.subcomponents({node.component})")
                self._held(to, "None" if node.component else to)

    def _every(self, node: Every, to: str, _: int) -> None:
        with self._field(node, to) as segment:
            self.line(f"{to} = {segment}.cells({node.field})")
            with self.under(f"if len({to}) > 1:"):
                self.line(f"reading.whole.append({self.name(node.place)})")
            with self.under(f"if all([NULL in one.first and not any(one.first) for one in {to}]):"):
                self.line(f"{to} = NULL")


@lru_cache(maxsize=MAX_SOURCES)
def _code(source: str) -> CodeType:
    """Return the code of a source; templates of the same shape are compiled once."""
    return compile(source, f"<{__name__}>", "exec")
