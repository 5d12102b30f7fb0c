"""Paths and conditions compiled to nodes."""

from engine.hl7.leaf import Leaf as Value
from engine.mapping.language.compared import Check
from engine.mapping.language.compared import Term as Compared
from engine.mapping.language.comparison import comparison_fault, comparison_of, other_than
from engine.mapping.language.composite import Staged
from engine.mapping.language.expression import Condition, Field, Part, Term
from engine.mapping.language.function_context import Takes
from engine.mapping.language.node import Cell, Chosen, Every, Leaf, Node, Text, Whole
from engine.mapping.language.reading import Cells, Reading


def field_node(path: Field, takes: Takes, segment_at_hand: str) -> Node:
    """Return a node for a path into a segment: the one at hand if it is of that name, else the patient's first."""
    field = (path.segment, segment_at_hand == path.segment, f"{path.segment}-{path.field}", path.field)
    component, subcomponent = path.component or 1, path.subcomponent or 1
    if takes is Takes.ALL:
        return Every(*field)
    if takes is Takes.CELLS:
        return Chosen(*field, path.component, path.repetition, path.where, path.equals)
    if path.where:

        def leaf(cells: Cells, _: Reading) -> Value:
            return cells.leaf(component, subcomponent)

        return Staged(Chosen(*field, 0, 0, path.where, path.equals), leaf)
    return Text(*field, component, subcomponent, path.repetition or 1, mere=bool(path.repetition))


def part_node(path: Part, takes: Takes) -> Node:
    """Return a node for a path into the cells at hand."""
    if takes is not Takes.TEXT:
        return Whole(path.component)
    return Leaf(path.component, path.subcomponent) if path.subcomponent > 1 else Cell(path.component or 1)


def check_of(condition: Condition, segment_at_hand: str) -> Check:
    """Return a condition with its paths compiled; a comparison that is none (it was told as a fault) never holds."""
    return Check(tuple(tuple(_term(term, segment_at_hand) for term in group) for group in condition))


def _term(term: Term, segment_at_hand: str) -> Compared:
    source: Node | str
    if isinstance(term.source, Field):
        source = field_node(term.source, Takes.TEXT, segment_at_hand)
        # A warning names the field of the value, and not that of a condition beside it.
        source = source._replace(mere=True, place="") if isinstance(source, Text) else source
    elif isinstance(term.source, Part):
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
