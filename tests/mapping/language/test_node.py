"""Written functions: they make what a plain walk of their nodes makes, in all three states of a leaf."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.hl7.leaf import NULL
from engine.hl7.message import parse
from engine.hl7.segment import BITS, Cells, plain_cells
from engine.mapping.language.compared import CompiledCondition, CompiledTerm
from engine.mapping.language.composite import (
    Defaulted,
    EachNode,
    EachSegment,
    Filled,
    FirstNode,
    Guarded,
    ItemNode,
    Joined,
    Masked,
    Object,
    Staged,
)
from engine.mapping.language.expression import EVENT
from engine.mapping.language.node import (
    Called,
    ComponentNode,
    Every,
    RepetitionNode,
    Text,
    ValueNode,
    Word,
    function_of,
)
from engine.mapping.language.reading import EVERYTHING, MessageReading
from tests.tiers import trials

MESSAGE = parse(b'MSH|^~\\&|HIS|RVB|||20250701093000||ADT^A01|M1|P|2.5.1\rEVN||20250701092900| x ^ |""')
READING = MessageReading(MESSAGE, MESSAGE.groups, None, "20250701")
PARTS = 5
NAMES = ("use", "family", "given", "url")


def _plain(node: ValueNode, cells: Cells) -> Any:  # noqa: PLR0911 -- one line for each kind of node
    match node:
        case Word(value):
            return value
        case ComponentNode(number):
            return cells.leaf(number, 1)
        case Text(segment, _, _, field, component, subcomponent, repetition):
            found = READING.first.get(segment)
            leaf = found.leaf(field, component, subcomponent, repetition) if found else None
            return (leaf.strip() or None) if isinstance(leaf, str) else leaf
        case Called(step):
            return step(cells, READING)
        case Staged(inner, apply):
            value = _plain(inner, cells)
            return value if value is None or value is NULL else apply(value, READING)
        case Guarded(inner, check, unless):
            return None if _holds(check, cells) is unless else _plain(inner, cells)
        case FirstNode(among):
            values = [_plain(one.node, cells) for one in among]
            return next((one for one in values if one is not None and one is not NULL), _null(values))
        case ItemNode(inner):
            value = _plain(inner, cells)
            return value if value is None or value is NULL else [value]
        case Joined(lists):
            values = [_plain(one.node, cells) for one in lists]
            return [item for one in values if isinstance(one, list) for item in one] or _null(values)
        case Object(content, fixed, needs):
            values = [_plain(one.node, cells) for _, one in content]
            item = {
                name: one for (name, _), one in zip(content, values, strict=True) if one is not None and one is not NULL
            }
            if content and (not item or (needs and not needs & item.keys())):
                return _null(values)
            added = {name: _plain(one, cells) for name, one in fixed}
            return item | {name: one for name, one in added.items() if one is not None and one is not NULL} or None


def _null(values: list[Any]) -> Any:
    return NULL if any(value is NULL for value in values) else None


def _holds(check: CompiledCondition, cells: Cells) -> bool:
    return any(all(_term(term, cells) for term in group) for group in check.groups)


def _term(term: CompiledTerm, cells: Cells) -> bool:
    value = READING.event if isinstance(term.source, str) else _plain(term.source, cells)
    return (value in term.values if term.values else isinstance(value, str)) != term.negated


def _mask(node: ValueNode) -> int:
    """Return the mask of a node as the compiler has it: of what it cannot do without, where it reads cells alone."""
    match node:
        case ComponentNode(number):
            return BITS[number]
        case Staged(inner, _) | Guarded(inner, _, _) | ItemNode(inner):
            return _mask(inner)
        case FirstNode(several) | Joined(several):
            masks = [_mask(one.node) for one in several]
        case Object(content, _, _) if content:
            masks = [_mask(one.node) for _, one in content]
        case _:
            masks = [EVERYTHING]
    found = 0
    for mask in masks:
        found |= mask
    return found


def _upper(value: Any, _: MessageReading) -> Any:
    return value.upper() if isinstance(value, str) else value


APPLIED = (_upper, lambda _, __: None, lambda _, __: NULL, lambda value, _: [value])
STEPS = (lambda _, __: None, lambda _, __: NULL, lambda _, __: "seen", lambda scope, _: scope.leaf(1, 1))
TEXTS = (("EVN", 2, 1), ("EVN", 3, 1), ("EVN", 3, 2), ("EVN", 4, 1), ("EVN", 9, 1), ("PID", 5, 1))
LEAVES = (
    *map(ComponentNode, range(1, PARTS + 1)),
    *(Text(name, False, f"{name}-{field}", field, component, 1, 1) for name, field, component in TEXTS),  # noqa: FBT003
    *map(Called, STEPS),
    Word("word"),
)
TERMS = (
    *(
        CompiledTerm(one, frozenset(values), negated)
        for one in LEAVES[:-1]
        for values in ("", "ab")
        for negated in (True, False)
    ),
    *(CompiledTerm(EVENT, frozenset({event}), negated=True) for event in ("A01", "A02")),
)
CHECKS = st.lists(st.lists(st.sampled_from(TERMS), min_size=1, max_size=2).map(tuple), min_size=1, max_size=2).map(
    lambda groups: CompiledCondition(tuple(groups))
)


@st.composite
def _nodes(draw: st.DrawFn, depth: int = 3) -> ValueNode:
    """Draw a node whose nodes are at most so deep."""
    kind = draw(st.sampled_from(KINDS if depth else KINDS[:1]))
    if kind is Staged:
        return Staged(draw(_nodes(depth - 1)), draw(st.sampled_from(APPLIED)))
    if kind is Guarded:
        return Guarded(draw(_nodes(depth - 1)), draw(CHECKS), draw(st.booleans()))
    if kind is FirstNode or kind is Joined:
        nodes = [draw(_nodes(depth - 1)) for _ in range(draw(st.integers(1, 3)))]
        return kind(tuple(_masked(draw, ItemNode(node) if kind is Joined else node) for node in nodes))
    if kind is Object:
        names = NAMES[: draw(st.integers(0, 3))]
        fixed = [(name, draw(_nodes(0))) for name in ("system", "type")[: draw(st.integers(0, 2))]]
        return Object(
            tuple((name, _masked(draw, draw(_nodes(depth - 1)))) for name in names),
            tuple(sorted(fixed, key=lambda one: isinstance(one[1], Word))),
            draw(st.frozensets(st.sampled_from(NAMES), max_size=2)),
        )
    return draw(st.sampled_from(LEAVES))


KINDS: tuple[Any, ...] = (None, Staged, Guarded, FirstNode, Joined, Object)


def _masked(draw: st.DrawFn, node: ValueNode) -> Masked:
    """Draw a mask for a node: none, or what it cannot do without."""
    return Masked(node, draw(st.sampled_from((EVERYTHING, _mask(node)))))


CELLS = st.lists(st.sampled_from(["", "a", "b", '""']), min_size=1, max_size=PARTS).map(
    lambda parts: plain_cells("^".join(parts), "^")
)


@pytest.mark.property
@settings(deadline=None, max_examples=trials(200))
@given(_nodes(), CELLS)
def test_a_function_makes_what_a_plain_walk_makes(node: ValueNode, cells: Cells) -> None:
    """Whatever a template is made of, and whatever is there, also in the order of an object's elements."""
    made, plain = function_of(node)(cells, READING), _plain(node, cells)
    assert made == plain
    assert repr(made) == repr(plain)


PIECE = st.lists(st.sampled_from(["a", "b", " ", "^", "^", "~", "&", "\\T\\", '""']), max_size=6).map("".join)


@pytest.mark.property
@settings(deadline=None, max_examples=trials(300))
@given(st.lists(PIECE, min_size=1, max_size=3), st.integers(1, 3), st.integers(1, 4), st.integers(1, 2))
def test_a_component_is_cut_as_a_leaf_is(fields: list[str], field: int, component: int, subcomponent: int) -> None:
    """With escapes, subcomponents and nulls in the segment or without: the leaf, and that a repetition was left out."""
    message = parse(("MSH|^~\\&|HIS|RVB|||2025||ADT^A01|M1|P|2.5.1\rZZZ|" + "|".join(fields)).encode())
    reading = MessageReading(message, message.groups, None, "")
    made = function_of(Text("ZZZ", False, "ZZZ", field, component, subcomponent, 1))(None, reading)  # noqa: FBT003
    leaf = message.leaf("ZZZ", field, component, subcomponent)
    assert made == ((leaf.strip() or None) if isinstance(leaf, str) else leaf)
    assert reading.once == ["ZZZ"] * ("~" in message.named("ZZZ")[0].field(field))


@settings(deadline=None)
@given(CHECKS, CELLS)
def test_a_condition_is_what_its_terms_say(check: CompiledCondition, cells: Cells) -> None:
    """Terms of a group must all hold, of groups one."""
    assert bool(check.test(cells, READING)) is _holds(check, cells)


HELD = parse(b'MSH|^~\\&|HIS|RVB|||2025||ADT^A01|M1|P|2.5.1\rPID|1||a^^^x&u^MR~b^^^y&v^PI|""|""^""\rNK1|c\rNK1|""')
ELSEWHERE, AT_HAND = False, True
KIN = Text("NK1", AT_HAND, "NK1-1", 1, 1, 1, 1)
UPPER = Staged(ComponentNode(1), _upper)
NAMED = Object((("family", Masked(ComponentNode(1), BITS[1])),), (), frozenset())
FIELD = ("PID", ELSEWHERE, "PID-3", 3)


@pytest.mark.parametrize(
    ("node", "made", "warnings"),
    [
        (RepetitionNode(*FIELD, 0, 0, 5, "PI"), ["b", "", "", "y", "PI"], []),
        (RepetitionNode(*FIELD, 0, 2, 0, ""), ["b", "", "", "y", "PI"], []),
        (RepetitionNode(*FIELD, 4, 0, 0, ""), ["x", "u"], ["repetition-left-out PID-3"]),
        (RepetitionNode(*FIELD, 0, 0, 5, "XX"), None, []),
        (RepetitionNode("PID", ELSEWHERE, "PID-5", 5, 0, 0, 0, ""), NULL, []),
        (EachNode(*FIELD, UPPER, ()), ["A", "B"], []),
        (EachNode(*FIELD, UPPER, (Word({"url": "x"}),)), ["A", {"url": "x"}, "B", {"url": "x"}], []),
        (EachNode("PID", ELSEWHERE, "PID-4", 4, UPPER, ()), NULL, []),
        (EachNode("PID", ELSEWHERE, "PID-9", 9, UPPER, ()), None, []),
        (Every("PID", ELSEWHERE, "PID-5", 5), NULL, []),
        (EachSegment("NK1", KIN, refers=False), ["c"], ["deletion-within-list NK1"]),
        (EachSegment("ZZZ", Word("x"), refers=False), None, []),
        (Filled(EachNode(*FIELD, NAMED, ()), Word({"use": "home"})),
         [{"use": "home", "family": "a"}, {"family": "b"}], []),
        (EachNode(*FIELD, Defaulted(NAMED, Word({"family": "x", "use": "y"}), frozenset({"use"})), ()),
         [{"family": "a", "use": "y"}, {"family": "b", "use": "y"}], []),
    ],
)  # fmt: skip
def test_fields_are_read_repetition_by_repetition(node: ValueNode, made: Any, warnings: list[str]) -> None:
    """One of a field's repetitions, every one, and an item of each: valued, absent and deleted."""
    reading = MessageReading(HELD, HELD.groups, None, "")
    found = function_of(node)(None, reading)
    reading.warn_left_out()
    assert (list(found.first) if isinstance(found, Cells) else found) == made
    assert reading.warnings == warnings


@pytest.mark.parametrize("text", ["__import__('os')", "'] = 1; raise SystemExit #", "\n    raise SystemExit", "{x}"])
def test_authored_text_is_never_run(text: str) -> None:
    """A name, a word or a code is a value to the function, whatever it spells."""
    check = CompiledCondition(((CompiledTerm(ComponentNode(1), frozenset({text}), negated=True),),))
    node = Object(
        ((text, Masked(Guarded(ComponentNode(1), check, unless=False), BITS[1])),), (("url", Word(text)),), frozenset()
    )
    assert function_of(node)(plain_cells("a", "^"), READING) == {text: "a", "url": text}


def test_templates_of_one_shape_share_their_source_and_no_code() -> None:
    """What is compiled once is the source; each function has code of its own, that suits itself to what it meets."""
    one, other = (
        function_of(Object((("use", Masked(ComponentNode(1), BITS[1])),), (), frozenset({name}))) for name in NAMES[:2]
    )
    assert one.__code__ is not other.__code__
    assert one(plain_cells("a", "^"), READING) == {"use": "a"}
    assert other(plain_cells("a", "^"), READING) is None
