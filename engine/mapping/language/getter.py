"""Paths and conditions compiled to nodes, and to steps over what is being read.

A step takes the scope at hand: a segment, the cells of a repetition, or nothing of its own.
"""

from collections.abc import Callable
from typing import Any

from engine.hl7.leaf import NULL
from engine.hl7.message import Segment
from engine.mapping.language.expression import Condition, Field, Part, Term
from engine.mapping.language.kit import Takes
from engine.mapping.language.node import Asked, Cell, Check, Node, Step, Text
from engine.mapping.language.node import Term as Compared
from engine.mapping.language.reading import Cells, Reading


def field_node(path: Field, takes: Takes, segment_at_hand: str) -> Node:
    """Return a node for a path into a segment: the one at hand if it is of that name, else the patient's first."""
    at_hand = segment_at_hand == path.segment
    find = _at_hand if at_hand else _first(path.segment)
    if takes is Takes.ALL:
        return Asked(_all(path, find))
    if takes is Takes.CELLS:
        return Asked(_cells(path, find))
    if path.where:
        return Asked(_chosen_text(path, find))
    parts = (path.component or 1, path.subcomponent or 1, path.repetition or 1)
    return Text(path.segment, at_hand, f"{path.segment}-{path.field}", path.field, *parts, mere=bool(path.repetition))


def part_node(path: Part, takes: Takes) -> Node:
    """Return a node for a path into the cells at hand."""
    if takes is not Takes.TEXT:
        return Asked(_whole(path.component))
    if path.subcomponent > 1:
        component, subcomponent = path.component, path.subcomponent
        return Asked(lambda scope, _: scope.leaf(component, subcomponent))
    return Cell(path.component or 1)


def check_of(condition: Condition, segment_at_hand: str) -> Check:
    """Return a condition with its paths compiled."""
    return Check(tuple(tuple(_term(term, segment_at_hand) for term in group) for group in condition))


def _term(term: Term, segment_at_hand: str) -> Compared:
    source: Node | str
    if isinstance(term.source, Field):
        source = field_node(term.source, Takes.TEXT, segment_at_hand)
        source = source._replace(mere=True) if isinstance(source, Text) else source
    elif isinstance(term.source, Part):
        source = part_node(term.source, Takes.TEXT)
    else:
        source = term.source
    return Compared(source, frozenset(term.values), term.negated)


def _at_hand(scope: Any, _: Reading) -> Segment | None:
    segment: Segment = scope
    return segment


def _first(name: str) -> Callable[[Any, Reading], Segment | None]:
    return lambda _, reading: reading.first.get(name)


def _chosen_text(path: Field, find: Callable[[Any, Reading], Segment | None]) -> Step:
    component, subcomponent, cells = path.component or 1, path.subcomponent or 1, _cells(path, find)

    def step(scope: Any, reading: Reading) -> Any:
        chosen = cells(scope, reading)
        return chosen.leaf(component, subcomponent) if isinstance(chosen, Cells) else chosen

    return step


def _cells(path: Field, find: Callable[[Any, Reading], Segment | None]) -> Step:
    number, place, choose = path.field, f"{path.segment}-{path.field}", _chooser(path)
    component, chosen = path.component, bool(path.repetition or path.where)

    def step(scope: Any, reading: Reading) -> Any:
        segment = find(scope, reading)
        if segment is None or not segment.field(number):
            return None
        reading.place = place
        cells = choose(segment)
        if cells is None:
            return None
        if not chosen and len(segment.cells(number)) > 1:
            reading.once.append(place)
        if component:
            cells = cells.subcomponents(component)
            if not any(cells.first) and NULL not in cells.first:
                return None
        return NULL if _deleted(cells) else cells

    return step


def _chooser(path: Field) -> Callable[[Segment], Cells | None]:
    number, where, equals, index = path.field, path.where, path.equals, max(path.repetition, 1) - 1

    def equal(segment: Segment) -> Cells | None:
        pairs = zip(segment.repetitions(number), segment.cells(number), strict=True)
        return next((cells for one, cells in pairs if one.leaf(where) == equals), None)

    def at(segment: Segment) -> Cells | None:
        every = segment.cells(number)
        return every[index] if index < len(every) else None

    return equal if where else at


def _all(path: Field, find: Callable[[Any, Reading], Segment | None]) -> Step:
    number, place = path.field, f"{path.segment}-{path.field}"

    def step(scope: Any, reading: Reading) -> Any:
        segment = find(scope, reading)
        if segment is None or not segment.field(number):
            return None
        reading.place = place
        every = segment.cells(number)
        if len(every) > 1:
            reading.whole.append(place)
        return NULL if all(_deleted(cells) for cells in every) else every

    return step


def _deleted(cells: Cells) -> bool:
    """Say whether something in the cells is deleted and nothing valued."""
    return NULL in cells.first and not any(cells.first)


def _whole(component: int) -> Step:
    if not component:
        return lambda scope, _: scope

    def step(scope: Any, _: Reading) -> Any:
        cells = scope.subcomponents(component)
        if any(cells.first):
            return cells
        return NULL if NULL in cells.first else None

    return step
