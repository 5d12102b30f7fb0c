"""Composite nodes: lists, objects, alternatives and functions of values."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from engine.hl7.leaf import NULL_TEXT
from engine.mapping.language.compared import CompiledCondition
from engine.mapping.language.node import (
    Apply,
    ComponentNode,
    PrecomputedFunction,
    ValueNode,
    Word,
    field_source,
    function_of,
)
from engine.mapping.language.reading import EVERYTHING
from engine.mapping.language.references import placed
from engine.mapping.language.source import GeneratedSource

DELETION_WITHIN_LIST: Final = "deletion-within-list"


class Masked(NamedTuple):
    """One of several nodes, with its mask."""

    node: ValueNode
    mask: int


class EachNode(NamedTuple):
    """An item of each repetition of a field, and further items of the same repetition (`also`)."""

    segment: str
    at_hand: bool
    place: str
    field: int
    item: ValueNode
    also: tuple[ValueNode, ...]

    def write(self, source: GeneratedSource, to: str, _: int) -> None:
        """Write what sets a variable to the list of the items."""
        items, null, found = source.variable(), source.variable(), source.variable()
        with field_source(source, to, *self[:4]) as (segment, __, texts, ___):
            source.line(f"{found} = {texts}[{self.field}]")
            with source.under(f"if {found} == {source.name(NULL_TEXT)}:"):
                source.line(f"{to} = NULL")
            with source.under(f"elif reading.repeat in {found}:"):
                source.line(f"reading.whole.append({source.name(self.place)})")
            each = f"for cells in {segment}.cells({self.field}):"
            with source.under(f"if {to} is None:"), _listed(source, items, null, to), source.under(each):
                # Another field may have been read for the item before.
                source.line(f"reading.place = {source.name(self.place)}")
                source.line(f"{found} = {source.name(function_of(self.item))}(cells, reading)")
                with _if_made(source, found, null):
                    source.line(f"{items}.append({found})")
                    for also in self.also:
                        source.line(f"{found} = {source.name(function_of(also))}(cells, reading)")
                        with source.under(f"if isinstance({found}, dict):"):
                            source.line(f"{items}.append({found})")


class EachSegment(NamedTuple):
    """An item of each segment of a name; `""` in its first field deletes.

    `refers`: items name what another file makes of their segment.
    """

    segment: str
    item: ValueNode
    refers: bool

    def write(self, source: GeneratedSource, to: str, _: int) -> None:
        """Write what sets a variable to the list of the items."""
        segments, items, null, found = source.variable(), source.variable(), source.variable(), source.variable()
        name = source.name(self.segment)
        source.line(f"{to} = None")
        source.line(f"{segments} = reading.all.get({name})")
        item = source.name(function_of(self.item))
        kept = f"{source.name(placed)}({found}, f'{{{name}}}-{{number}}')" if self.refers else found
        each = f"for number, one in enumerate({segments}, 1):"
        with source.under(f"if {segments} is not None:"), _listed(source, items, null, to, name), source.under(each):
            source.line(f"reading.place = {name}")
            source.line(f"{found} = NULL if one.is_null(1) else {item}(one, reading)")
            with _if_made(source, found, null):
                source.line(f"{items}.append({kept})")


class Defaulted(NamedTuple):
    """An object, completed by a default's elements (`names`)."""

    node: ValueNode
    default: ValueNode
    names: frozenset[str]

    def write(self, source: GeneratedSource, to: str, mask: int) -> None:
        """Write what sets a variable to the completed object."""
        self.node.write(source, to, mask)
        lacking = f"if isinstance({to}, dict) and not {source.name(self.names)} <= {to}.keys():"
        with source.under(lacking), _extra(source, self.default) as extra:
            source.line(f"{to} = {{**{extra}, **{to}}}")


class Filled(NamedTuple):
    """A list whose first item of use `home`, or else its first, is completed by a default."""

    items: ValueNode
    fill: ValueNode

    def write(self, source: GeneratedSource, to: str, mask: int) -> None:
        """Write what sets a variable to the list."""
        self.items.write(source, to, mask)
        with source.under(f"if isinstance({to}, list):"), _extra(source, self.fill) as extra:
            source.line(f"{source.name(_fill)}({to}, {extra})")


class Staged(NamedTuple):
    """A function of a node's value; no value makes none."""

    node: ValueNode
    apply: Apply

    def write(self, source: GeneratedSource, to: str, mask: int) -> None:
        """Write what sets a variable to the function's result."""
        self.node.write(source, to, mask)
        with source.under(f"if {to}:" if isinstance(self.node, ComponentNode) else _valued(to)):
            apply = self.apply
            if isinstance(apply, PrecomputedFunction):
                answers, otherwise = source.name(apply.answers), source.name(apply.otherwise)
                source.line(f"{to} = {answers}[{to}] if {to} in {answers} else {otherwise}({to}, reading)")
            else:
                source.line(f"{to} = {source.name(apply)}({to}, reading)")


class Concatenated(NamedTuple):
    """A function of a node's value and the values of others; no value makes none."""

    node: ValueNode
    pieces: tuple[ValueNode, ...]
    apply: Apply

    def write(self, source: GeneratedSource, to: str, mask: int) -> None:
        """Write what sets a variable to the function's result."""
        self.node.write(source, to, mask)
        with source.under(_valued(to)):
            found = [source.variable() for _ in self.pieces]
            for piece, variable in zip(self.pieces, found, strict=True):
                piece.write(source, variable, EVERYTHING)
            source.line(f"{to} = {source.name(self.apply)}(({', '.join([to, *found])},), reading)")


class Guarded(NamedTuple):
    """A node without a value unless the check holds (with `unless`: if it does)."""

    node: ValueNode
    check: CompiledCondition
    unless: bool

    def write(self, source: GeneratedSource, to: str, mask: int) -> None:
        """Write what sets a variable to the value if the check passes."""
        source.line(f"{to} = None")
        with source.under(f"if {'not ' * self.unless}{self.check.write(source)}:"):
            self.node.write(source, to, mask)


class FirstNode(NamedTuple):
    """The first of several that has a value, else NULL if any was NULL."""

    among: tuple[Masked, ...]

    def write(self, source: GeneratedSource, to: str, _: int) -> None:
        """Write what sets a variable to the first value."""
        among = self.among
        source.line(f"{to} = None")
        with source.under(source.if_filled(among[0].mask)):
            among[0].node.write(source, to, among[0].mask)
        for other, mask in among[1:]:
            found = source.variable()
            condition = "" if mask == EVERYTHING else f" and {source.filled(mask)}"
            with source.under(f"if ({to} is None or {to} is NULL){condition}:"):
                other.write(source, found, mask)
                with source.under(f"if {found} is not None:"):
                    source.line(f"{to} = {found}")


class ItemNode(NamedTuple):
    """A list of the one item that a node makes."""

    node: ValueNode

    def write(self, source: GeneratedSource, to: str, mask: int) -> None:
        """Write what sets a variable to a list of the item."""
        self.node.write(source, to, mask)
        with source.under(_valued(to)):
            source.line(f"{to} = [{to}]")


class Joined(NamedTuple):
    """The lists of several nodes as one."""

    lists: tuple[Masked, ...]

    def write(self, source: GeneratedSource, to: str, _: int) -> None:
        """Write what sets a variable to the list of all."""
        items, null, found = source.variable(), source.variable(), source.variable()
        source.line(f"{items} = []")
        source.line(f"{null} = None")
        for one, mask in self.lists:
            alone = isinstance(one, ItemNode)
            with _content(source, one.node if isinstance(one, ItemNode) else one, mask, found, null):
                source.line(f"{items}.append({found})" if alone else f"{items} += {found}")
        source.line(f"{to} = {items} or {null}")


class Object(NamedTuple):
    """An object: none without content, or without at least one element that it needs.

    `fixed` elements are added to content, and make no object by themselves. `warning`: the warning for content
    without a needed element; empty for none.
    """

    content: tuple[tuple[str, Masked], ...]
    fixed: tuple[tuple[str, ValueNode], ...]
    needs: frozenset[str]
    warning: str = ""

    def write(self, source: GeneratedSource, to: str, _: int) -> None:
        """Write what sets a variable to the object."""
        words = [(source.name(name), source.name(one.value)) for name, one in self.fixed if isinstance(one, Word)]
        if len(self.content) == 1 and not self.needs and len(words) == len(self.fixed):
            self._single(source, self.content[0], words, to)
            return
        item, null, found = source.variable(), source.variable(), source.variable()
        source.line(f"{item} = {{}}")
        source.line(f"{null} = None")
        for name, one in self.content:
            with _content(source, one.node, one.mask, found, null):
                source.line(f"{item}[{source.name(name)}] = {found}")
        enough = f"{item} and not {source.name(self.needs)}.isdisjoint({item})" if self.needs else item
        source.line(f"{to} = {null}")
        with source.under(f"if {enough}:" if self.content else ""):
            for name, fixed in self.fixed:
                if not isinstance(fixed, Word):
                    fixed.write(source, found, EVERYTHING)
                    with source.under(_valued(found)):
                        source.line(f"{item}[{source.name(name)}] = {found}")
            for name, word in words:
                source.line(f"{item}[{name}] = {word}")
            source.line(f"{to} = {item}" if self.content else f"{to} = {item} or None")
        if self.warning and self.needs and self.content:
            with source.under(f"elif {item}:"):
                source.line(f"reading.warnings.append({source.name(self.warning)})")

    def _single(
        self, source: GeneratedSource, content: tuple[str, Masked], words: list[tuple[str, str]], to: str
    ) -> None:
        name, (node, mask) = content
        source.line(f"{to} = None")
        with source.under(source.if_filled(mask)):
            node.write(source, to, mask)
            with source.under(_valued(to)):
                pairs = [(source.name(name), to), *words]
                source.line(f"{to} = {{{', '.join([f'{key}: {value}' for key, value in pairs])}}}")


@contextmanager
def _listed(source: GeneratedSource, items: str, null: str, to: str, place: str = "") -> Iterator[None]:
    """Write what makes a list of the items made in this context, and warns of deletions among them."""
    source.line(f"{items} = []")
    source.line(f"{null} = None")
    yield
    with source.under(f"if {items} and {null} is not None:"):
        if place:
            source.line(f"reading.place = {place}")
        source.line(f"reading.warn({source.name(DELETION_WITHIN_LIST)})")
    source.line(f"{to} = {items} or {null}")


@contextmanager
def _if_made(source: GeneratedSource, found: str, null: str) -> Iterator[None]:
    with source.under(f"if {found} is NULL:"):
        source.line(f"{null} = NULL")
    with source.under(f"elif {found} is not None:"):
        yield


@contextmanager
def _extra(source: GeneratedSource, node: ValueNode) -> Iterator[str]:
    """Write what makes an object, with the code for it in this context; yields its name."""
    extra = source.variable()
    node.write(source, extra, EVERYTHING)
    with source.under(f"if isinstance({extra}, dict):"):
        yield extra


@contextmanager
def _content(source: GeneratedSource, node: ValueNode, mask: int, found: str, null: str) -> Iterator[None]:
    """Write what reads one of several parts and notes its deletion, or else runs the code of this context."""
    with source.under(source.if_filled(mask)):
        node.write(source, found, mask)
        with _if_made(source, found, null):
            yield


def _valued(variable: str) -> str:
    return f"if {variable} is not None and {variable} is not NULL:"


def _fill(items: list[Any], extra: dict[str, Any]) -> None:
    """Complete the first item of use `home`, or else the first."""
    index = next((number for number, item in enumerate(items) if item.get("use") == "home"), 0)
    items[index] = {**extra, **items[index]}
