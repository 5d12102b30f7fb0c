"""Paths and conditions compiled to nodes."""

from engine.hl7.leaf import Leaf as Value
from engine.mapping.language.compared import CompiledCondition
from engine.mapping.language.compared import CompiledTerm as Compared
from engine.mapping.language.comparison import comparison_fault, comparison_of, other_than
from engine.mapping.language.composite import Staged
from engine.mapping.language.expression import Condition, RepetitionPath, SegmentPath, Term
from engine.mapping.language.function_context import Takes
from engine.mapping.language.node import (
    ComponentNode,
    Every,
    RepetitionNode,
    SubcomponentNode,
    Text,
    ValueNode,
    WholeRepetition,
)
from engine.mapping.language.reading import Cells, MessageReading


def field_node(path: SegmentPath, takes: Takes, segment_at_hand: str) -> ValueNode:
    """Return a node for a path into a segment: the one at hand if it is of that name, else the patient's first."""
    field = (path.segment, segment_at_hand == path.segment, f"{path.segment}-{path.field}", path.field)
    component, subcomponent = path.component or 1, path.subcomponent or 1
    if takes is Takes.ALL:
        return Every(*field)
    if takes is Takes.CELLS:
        return RepetitionNode(*field, path.component, path.repetition, path.where, path.equals)
    if path.where:

        def leaf(cells: Cells, _: MessageReading) -> Value:
            return cells.leaf(component, subcomponent)

        return Staged(RepetitionNode(*field, 0, 0, path.where, path.equals), leaf)
    return Text(*field, component, subcomponent, path.repetition or 1, mere=bool(path.repetition))


def part_node(path: RepetitionPath, takes: Takes) -> ValueNode:
    """Return a node for a path into the cells at hand."""
    if takes is not Takes.TEXT:
        return WholeRepetition(path.component)
    return (
        SubcomponentNode(path.component, path.subcomponent)
        if path.subcomponent > 1
        else ComponentNode(path.component or 1)
    )


def check_of(condition: Condition, segment_at_hand: str) -> CompiledCondition:
    """Return a condition with its paths compiled; an invalid comparison (reported as a fault) never holds."""
    return CompiledCondition(tuple(tuple(_term(term, segment_at_hand) for term in group) for group in condition))


def _term(term: Term, segment_at_hand: str) -> Compared:
    source: ValueNode | str
    if isinstance(term.source, SegmentPath):
        source = field_node(term.source, Takes.TEXT, segment_at_hand)
        # A warning names the field of the value, not that of its condition.
        source = source._replace(mere=True, place="") if isinstance(source, Text) else source
    elif isinstance(term.source, RepetitionPath):
        source = part_node(term.source, Takes.TEXT)
    else:
        source = term.source
    holds = None
    if term.test:
        holds = comparison_of(term.test, term.values[0]) if comparison_fault(term) is None else _never
        holds = other_than(holds) if term.unlike else holds
    return Compared(source, frozenset(term.values), term.negated, holds, term.unlike)


def _never(_: object) -> bool:
    return False
