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

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from engine.hl7.cells import BITS
from engine.mapping.language.expression import EVENT
from engine.mapping.language.node import (
    Asked,
    Cell,
    Check,
    Chosen,
    Defaulted,
    Each,
    EachSegment,
    Every,
    Filled,
    First,
    Guarded,
    Item,
    Joined,
    Leaf,
    Masked,
    Node,
    Object,
    Staged,
    Step,
    Term,
    Test,
    Text,
    Whole,
    Word,
)
from engine.mapping.language.pointing import placed
from engine.mapping.language.reading import EVERYTHING
from engine.mapping.language.source import PathSource

DELETION_WITHIN_LIST: Final = "deletion-within-list"


def function_of(node: Node) -> Step:
    """Return the function of a node."""
    if isinstance(node, Asked):
        return node.step
    source = _Function()
    value = source.variable()
    source.value(node, value, EVERYTHING)
    source.line(f"return {value}")
    made: Step = source.function()
    return made


def condition_of(check: Check) -> Test:
    """Return the function of a condition."""
    source = _Function()
    source.line(f"return {source.holds(check)}")
    made: Test = source.function()
    return made


class _Function(PathSource):
    """A function as its nodes are written out."""

    def __init__(self) -> None:
        super().__init__()
        self._written: dict[type, Callable[[Any, str, int], None]] = {
            Word: self._word,
            Cell: self._set_cell,
            Leaf: self._leaf,
            Whole: self._whole,
            Text: self._text,
            Chosen: self._chosen,
            Every: self._every,
            Each: self._each,
            EachSegment: self._each_segment,
            Asked: self._asked,
            Staged: self._staged,
            Guarded: self._guarded,
            First: self._first,
            Item: self._item,
            Joined: self._joined,
            Object: self._object,
            Defaulted: self._defaulted,
            Filled: self._filled_up,
        }

    def value(self, node: Node, to: str, mask: int) -> None:
        """Write what sets a variable to what a node makes; `mask`: one of its bits is known to be filled."""
        self._written[type(node)](node, to, mask)

    def _word(self, node: Word, to: str, _: int) -> None:
        self.line(f"{to} = {self.name(node.value)}")

    def _asked(self, node: Asked, to: str, _: int) -> None:
        self.line(f"{to} = {self.name(node.step)}(scope, reading)")

    def _staged(self, node: Staged, to: str, mask: int) -> None:
        self.value(node.node, to, mask)
        with self.under(f"if {to}:" if isinstance(node.node, Cell) else _valued(to)):
            self.line(f"{to} = {self.name(node.apply)}({to}, reading)")

    def _guarded(self, node: Guarded, to: str, mask: int) -> None:
        self.line(f"{to} = None")
        with self.under(f"if {'not ' * node.unless}{self.holds(node.check)}:"):
            self.value(node.node, to, mask)

    def _item(self, node: Item, to: str, mask: int) -> None:
        self.value(node.node, to, mask)
        with self.under(_valued(to)):
            self.line(f"{to} = [{to}]")

    def _defaulted(self, node: Defaulted, to: str, mask: int) -> None:
        self.value(node.node, to, mask)
        lacking = f"if isinstance({to}, dict) and not {self.name(node.names)} <= {to}.keys():"
        with self.under(lacking), self._extra(node.default) as extra:
            self.line(f"{to} = {{**{extra}, **{to}}}")

    def _filled_up(self, node: Filled, to: str, mask: int) -> None:
        self.value(node.items, to, mask)
        with self.under(f"if isinstance({to}, list):"), self._extra(node.fill) as extra:
            self.line(f"{self.name(_fill)}({to}, {extra})")

    def holds(self, check: Check) -> str:
        """Return a condition as an expression."""
        return f"({' or '.join(' and '.join(self._term(term) for term in group) for group in check.groups)})"

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

    def _each(self, node: Each, to: str, _: int) -> None:
        items, null, found = self.variable(), self.variable(), self.variable()
        with self._field(node, to) as segment:
            with self.under(f"if {segment}.is_null({node.field}):"):
                self.line(f"{to} = NULL")
            with self.under(f"elif reading.repeat in {segment}.field({node.field}):"):
                self.line(f"reading.whole.append({self.name(node.place)})")
            each = f"for cells in {segment}.cells({node.field}):"
            with self.under(f"if {to} is None:"), self._listed(items, null, to), self.under(each):
                self.line(f"{found} = {self.name(function_of(node.item))}(cells, reading)")
                with self._if_made(found, null):
                    self.line(f"{items}.append({found})")
                    for also in node.also:
                        self.line(f"{found} = {self.name(function_of(also))}(cells, reading)")
                        with self.under(f"if isinstance({found}, dict):"):
                            self.line(f"{items}.append({found})")

    def _each_segment(self, node: EachSegment, to: str, _: int) -> None:
        segments, items, null, found = self.variable(), self.variable(), self.variable(), self.variable()
        name = self.name(node.segment)
        self.line(f"{to} = None")
        self.line(f"{segments} = reading.all.get({name})")
        item = self.name(function_of(node.item))
        kept = f"{self.name(placed)}({found}, f'{{{name}}}-{{number}}')" if node.refers else found
        each = f"for number, one in enumerate({segments}, 1):"
        with self.under(f"if {segments} is not None:"), self._listed(items, null, to, name), self.under(each):
            self.line(f"reading.place = {name}")
            self.line(f"{found} = NULL if one.is_null(1) else {item}(one, reading)")
            with self._if_made(found, null):
                self.line(f"{items}.append({kept})")

    @contextmanager
    def _listed(self, items: str, null: str, to: str, place: str = "") -> Iterator[None]:
        """Write what makes a list of the items that are found in this context, and warns of deletions among them."""
        self.line(f"{items} = []")
        self.line(f"{null} = None")
        yield
        with self.under(f"if {items} and {null} is not None:"):
            if place:
                self.line(f"reading.place = {place}")
            self.line(f"reading.warn({self.name(DELETION_WITHIN_LIST)})")
        self.line(f"{to} = {items} or {null}")

    @contextmanager
    def _if_made(self, found: str, null: str) -> Iterator[None]:
        with self.under(f"if {found} is NULL:"):
            self.line(f"{null} = NULL")
        with self.under(f"elif {found} is not None:"):
            yield

    @contextmanager
    def _extra(self, node: Node) -> Iterator[str]:
        """Write what makes an object, and does what follows where there is one; yields its name."""
        extra = self.variable()
        self.value(node, extra, EVERYTHING)
        with self.under(f"if isinstance({extra}, dict):"):
            yield extra

    def _first(self, node: First, to: str, _: int) -> None:
        among = node.among
        self.line(f"{to} = None")
        with self.under(self._if_filled(among[0].mask)):
            self.value(among[0].node, to, among[0].mask)
        for other, mask in among[1:]:
            found = self.variable()
            condition = "" if mask == EVERYTHING else f" and {self._filled(mask)}"
            with self.under(f"if ({to} is None or {to} is NULL){condition}:"):
                self.value(other, found, mask)
                with self.under(f"if {found} is not None:"):
                    self.line(f"{to} = {found}")

    def _joined(self, node: Joined, to: str, _: int) -> None:
        items, null, found = self.variable(), self.variable(), self.variable()
        self.line(f"{items} = []")
        self.line(f"{null} = None")
        for one, mask in node.lists:
            alone = isinstance(one, Item)
            with self._content(one.node if isinstance(one, Item) else one, mask, found, null):
                self.line(f"{items}.append({found})" if alone else f"{items} += {found}")
        self.line(f"{to} = {items} or {null}")

    def _object(self, node: Object, to: str, _: int) -> None:
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
            with self._if_made(found, null):
                yield


def _valued(variable: str) -> str:
    return f"if {variable} is not None and {variable} is not NULL:"


def _fill(items: list[Any], extra: dict[str, Any]) -> None:
    """Add to the first item of use `home`, or else to the first, what it lacks."""
    index = next((number for number, item in enumerate(items) if item.get("use") == "home"), 0)
    items[index] = {**extra, **items[index]}
