"""Nodes written out as functions: Python source, compiled once, instead of a tree that is walked for each message.

Only the shape of a template becomes source. Names, words, codes and functions of a mapping are bound to it as values,
so that no authored text is ever run. `{family: XPN.1, use: XPN.7 | code(name-type), needs: [family]}` becomes

    def bound(NULL, c1, c2, c3, c4):          # 'family', the function, 'use', {'family'}
        def made(scope, reading):
            filled = scope.filled
            first = scope.first
            v2 = {}
            v3 = None
            if filled & 2:                    # XPN.1 holds something
                v4 = first[0]
                if v4 is NULL:
                    v3 = NULL
                elif v4 is not None:
                    v2[c1] = v4
            ...                               # the same for XPN.7, with v4 = c2(v4, reading)
            v1 = v3
            if v2 and not c4.isdisjoint(v2):
                v1 = v2
            return v1
        return made
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from types import CodeType
from typing import Any, Final

from engine.hl7.cells import BITS
from engine.hl7.leaf import NULL
from engine.mapping.language.expression import EVENT
from engine.mapping.language.node import (
    Asked,
    Cell,
    Check,
    First,
    Guarded,
    Item,
    Joined,
    Masked,
    Node,
    Object,
    Staged,
    Step,
    Term,
    Test,
    Text,
    Word,
)
from engine.mapping.language.reading import EVERYTHING

MAX_SOURCES: Final = 4096
NAME: Final = "made"
INDENT: Final = "    "


def function_of(node: Node) -> Step:
    """Return the function of a node."""
    if isinstance(node, Asked):
        return node.step
    source = _Source()
    value = source.variable()
    source.value(node, value, EVERYTHING)
    source.line(f"return {value}")
    made: Step = source.function()
    return made


def condition_of(check: Check) -> Test:
    """Return the function of a condition."""
    source = _Source()
    source.line(f"return {source.holds(check)}")
    made: Test = source.function()
    return made


class _Source:
    """The source of one function as it is written, and the values that are bound to its names."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._depth = 2
        self._values: dict[str, Any] = {"NULL": NULL}
        self._known: dict[int, str] = {}
        self._variables = 0
        self._masks = self._cells = False

    def function(self) -> Any:
        """Compile what was written; its own copy of the code, which the interpreter suits to what it meets."""
        head = [f"{INDENT}def {NAME}(scope, reading):"]
        if self._masks:
            head.append(f"{INDENT * 2}filled = scope.filled")
        if self._cells:
            head.append(f"{INDENT * 2}first = scope.first")
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

    def value(self, node: Node, to: str, mask: int) -> None:
        """Write what sets a variable to what a node makes; `mask`: one of its bits is known to be filled."""
        match node:
            case Word(value):
                self.line(f"{to} = {self.name(value)}")
            case Cell(number):
                self.line(f"{to} = {self._cell(number, mask)}")
            case Text():
                self._text(node, to)
            case Asked(step):
                self.line(f"{to} = {self.name(step)}(scope, reading)")
            case Staged(inner, apply):
                self.value(inner, to, mask)
                with self.under(f"if {to}:" if isinstance(inner, Cell) else _valued(to)):
                    self.line(f"{to} = {self.name(apply)}({to}, reading)")
            case Guarded(inner, check, unless):
                self.line(f"{to} = None")
                with self.under(f"if {'not ' * unless}{self.holds(check)}:"):
                    self.value(inner, to, mask)
            case First(among):
                self._first(among, to)
            case Item(inner):
                self.value(inner, to, mask)
                with self.under(_valued(to)):
                    self.line(f"{to} = [{to}]")
            case Joined(lists):
                self._joined(lists, to)
            case Object():
                self._object(node, to)

    def holds(self, check: Check) -> str:
        """Return a condition as an expression."""
        return f"({' or '.join(' and '.join(self._term(term) for term in group) for group in check.groups)})"

    def _filled(self, mask: int) -> str:
        self._masks = True
        return f"filled & {mask}"

    def _if_filled(self, mask: int) -> str:
        return "" if mask == EVERYTHING else f"if {self._filled(mask)}:"

    def _cell(self, number: int, mask: int) -> str:
        self._cells = True
        cell, bit = f"first[{number - 1}]", BITS[number]
        return cell if mask == bit else f"{cell} if {self._filled(bit)} else None"

    def _term(self, term: Term) -> str:
        source, values = term.source, self.name(term.values)
        if isinstance(source, str):
            test = f"reading.{EVENT} in {values}"
        elif isinstance(source, Cell):
            cell = self._cell(source.number, BITS[source.number])
            wanted = f"in {values}" if term.values else "is not NULL"
            test = f"{self._filled(BITS[source.number])} and {cell} {wanted}"
        else:
            found = f"{self.name(function_of(source))}(scope, reading)"
            test = f"{found} in {values}" if term.values else f"isinstance({found}, str)"
        return f"not ({test})" if term.negated else f"({test})"

    def _text(self, node: Text, to: str) -> None:
        segment = "scope" if node.at_hand else self.variable()
        self.line(f"{to} = None")
        if not node.at_hand:
            self.line(f"{segment} = reading.first.get({self.name(node.segment)})")
        with self.under(f"if {segment} is not None and {segment}.field({node.field}):"):
            self.line(f"reading.place = {self.name(node.place)}")
            if not node.mere:
                with self.under(f"if reading.repeat in {segment}.field({node.field}):"):
                    self.line(f"reading.once.append({self.name(node.place)})")
            self.line(f"{to} = {segment}.leaf({', '.join(map(str, node[3:7]))})")
            with self.under(f"if {to}:"):
                self.line(f"{to} = {to}.strip() or None")

    def _first(self, among: tuple[Masked, ...], to: str) -> None:
        self.line(f"{to} = None")
        with self.under(self._if_filled(among[0].mask)):
            self.value(among[0].node, to, among[0].mask)
        for node, mask in among[1:]:
            found = self.variable()
            condition = "" if mask == EVERYTHING else f" and {self._filled(mask)}"
            with self.under(f"if ({to} is None or {to} is NULL){condition}:"):
                self.value(node, found, mask)
                with self.under(f"if {found} is not None:"):
                    self.line(f"{to} = {found}")

    def _joined(self, lists: tuple[Masked, ...], to: str) -> None:
        items, null, found = self.variable(), self.variable(), self.variable()
        self.line(f"{items} = []")
        self.line(f"{null} = None")
        for node, mask in lists:
            alone = isinstance(node, Item)
            with self._content(node.node if isinstance(node, Item) else node, mask, found, null):
                self.line(f"{items}.append({found})" if alone else f"{items} += {found}")
        self.line(f"{to} = {items} or {null}")

    def _object(self, node: Object, to: str) -> None:
        words = [(self.name(name), self.name(one.value)) for name, one in node.fixed if isinstance(one, Word)]
        if len(node.content) == 1 and not node.needs and len(words) == len(node.fixed):
            self._single(node.content[0], words, to)
            return
        item, null, found = self.variable(), self.variable(), self.variable()
        self.line(f"{item} = {{}}")
        self.line(f"{null} = None")
        for name, one in node.content:
            with self._content(one.node, one.mask, found, null):
                self.line(f"{item}[{self.name(name)}] = {found}")
        enough = f"{item} and not {self.name(node.needs)}.isdisjoint({item})" if node.needs else item
        self.line(f"{to} = {null}")
        with self.under(f"if {enough}:" if node.content else ""):
            for name, fixed in node.fixed:
                if not isinstance(fixed, Word):
                    self.value(fixed, found, EVERYTHING)
                    with self.under(_valued(found)):
                        self.line(f"{item}[{self.name(name)}] = {found}")
            for name, word in words:
                self.line(f"{item}[{name}] = {word}")
            self.line(f"{to} = {item}" if node.content else f"{to} = {item} or None")
        if node.told and node.needs and node.content:
            with self.under(f"elif {item}:"):
                self.line(f"reading.warnings.append({self.name(node.told)})")

    def _single(self, content: tuple[str, Masked], words: list[tuple[str, str]], to: str) -> None:
        name, (node, mask) = content
        self.line(f"{to} = None")
        with self.under(self._if_filled(mask)):
            self.value(node, to, mask)
            with self.under(_valued(to)):
                pairs = [(self.name(name), to), *words]
                self.line(f"{to} = {{{', '.join([f'{key}: {value}' for key, value in pairs])}}}")

    @contextmanager
    def _content(self, node: Node, mask: int, found: str, null: str) -> Iterator[None]:
        """Write what asks for one of several parts, and notes that it is deleted, or else does what follows."""
        with self.under(self._if_filled(mask)):
            self.value(node, found, mask)
            with self.under(f"if {found} is NULL:"):
                self.line(f"{null} = NULL")
            with self.under(f"elif {found} is not None:"):
                yield


def _valued(variable: str) -> str:
    return f"if {variable} is not None and {variable} is not NULL:"


@lru_cache(maxsize=MAX_SOURCES)
def _code(source: str) -> CodeType:
    """Return the code of a source; templates of the same shape are compiled once."""
    return compile(source, f"<{__name__}>", "exec")
