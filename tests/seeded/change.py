"""What a planted bug changes in a function: small values, each applied to the function's syntax tree.

Code in a change is compared as a tree: line breaks, quotes and comments do not count. In it `...` is any expression,
all arguments of a call, or all statements of a block. A name in it that the function does not have is any local name
of the function, so that renaming a local breaks no bug. Each change has exactly one place in its function; otherwise it
raises ValueError. Where code has several places, `of` is the code around the one that is meant.
"""

import ast
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, Protocol, TypeVar

Found = TypeVar("Found")
PARTS: Final = (ast.expr, ast.stmt, ast.keyword)


class Change(Protocol):
    """One change."""

    def apply(self, function: ast.AST) -> None:
        """Change the tree of a function, or of a constant of a module, in place."""


class Drop(NamedTuple):
    """Take out the statement, argument, operand, element or filter that is `code`, or that awaits or assigns it."""

    code: str
    of: str = ""

    def apply(self, function: ast.AST) -> None:
        """Take it out; a statement becomes `pass`."""
        above = {id(place.nodes[0]): place for place in _places(function)}
        items = (_item(place, above) for place in _matches(function, self.code, self.of))
        _take_out(_only(self.code, [item for item in items if item]), above)


class Value(NamedTuple):
    """Put a value in the place of an expression: `False` in that of a condition, `()` in that of a list."""

    code: str
    value: str
    of: str = ""

    def apply(self, function: ast.AST) -> None:
        """Put it there."""
        _only(self.code, _matches(function, self.code, self.of)).put(*_parsed(self.value))


class Invert(NamedTuple):
    """Turn a condition into its opposite."""

    code: str

    def apply(self, function: ast.AST) -> None:
        """Put `not` before it, or take it away."""
        place = _only(self.code, _matches(function, self.code))
        node = place.nodes[0]
        negated = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
        place.put(node.operand if negated else ast.UnaryOp(op=ast.Not(), operand=node))


class Unwrap(NamedTuple):
    """Put only this argument, operand or choice in the place of the expression that it is part of."""

    code: str

    def apply(self, function: ast.AST) -> None:
        """Put it in the place of its parent."""
        above = {id(place.nodes[0]): place for place in _places(function)}
        parts = [place for place in _matches(function, self.code) if isinstance(place.parent, ast.expr)]
        part = _only(self.code, parts)
        above[id(part.parent)].put(*part.nodes)


class Add(NamedTuple):
    """Add an element to the one set, tuple or list of a constant, or the entries of a dict to its one dict."""

    element: str

    def apply(self, function: ast.AST) -> None:
        """Add it at the end."""
        (added,) = _parsed(self.element)
        kinds = ast.Dict if isinstance(added, ast.Dict) else ast.Set | ast.Tuple | ast.List
        filled = _only(self.element, [node for node in ast.walk(function) if isinstance(node, kinds)])
        if isinstance(filled, ast.Dict):
            filled.keys.append(None)
            filled.values.append(added)
        else:
            filled.elts.append(added)


class Text(NamedTuple):
    """Change a piece of a string, such as a clause of an SQL statement."""

    was: str
    now: str

    def apply(self, function: ast.AST) -> None:
        """Change it in the one string that has it."""
        nodes = [node for node in ast.walk(function) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
        text = _only(self.was, [node for node in nodes for _ in range(node.value.count(self.was))])
        text.value = text.value.replace(self.was, self.now)


class Swap(NamedTuple):
    """Put one name, attribute, literal or operator in the place of another."""

    was: str
    now: str
    of: str = ""

    def apply(self, function: ast.AST) -> None:
        """Put the other one there."""
        around = _only(self.of, _matches(function, self.of)).nodes[0] if self.of else function
        found = [
            (node, field, index)
            for node in ast.walk(around)
            for field, index, value in _leaves(node)
            if value == self.was
        ]
        node, field, index = _only(self.was, found)
        if field == "ops":
            node.ops[index] = OPERATORS[self.now]()
        else:
            setattr(node, field, ast.literal_eval(self.now) if field == "value" else self.now)


class Code(NamedTuple):
    """Put other code in the place of an expression or of statements: where no smaller change says it."""

    was: str
    now: str

    def apply(self, function: ast.AST) -> None:
        """Put it there, with the names that the function has by now."""
        now = _parsed(self.now)
        as_statements = not isinstance(now[0], ast.expr)
        place = _only(self.was, list(_matches(function, self.was, as_statements=as_statements)))
        place.put(*(_renamed(node, place.names) for node in now))


OPERATORS: Final = {
    sign: type(ast.parse(f"a {sign} b", mode="eval").body.ops[0])
    for sign in ("==", "!=", "<", "<=", ">", ">=", "in", "not in", "is", "is not")
}
_SIGNS: Final = {operator: sign for sign, operator in OPERATORS.items()}


class _Place(NamedTuple):
    """Where nodes are: in a field of their parent, from `start` on where the field is a list."""

    parent: ast.AST
    field: str
    start: int | None
    nodes: Sequence[ast.AST]
    names: dict[str, str]

    def put(self, *nodes: ast.AST) -> None:
        """Put other nodes there."""
        if self.start is None:
            (node,) = nodes
            setattr(self.parent, self.field, node)
        else:
            getattr(self.parent, self.field)[self.start : self.start + len(self.nodes)] = nodes


def names_of(tree: ast.AST) -> set[str]:
    """Return all names that a tree reads or binds."""
    read = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    caught = {node.name for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler) and node.name}
    return read | caught | {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}


def _locals_of(tree: ast.AST) -> set[str]:
    bound = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    caught = {node.name for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler) and node.name}
    return bound | caught | {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}


def _parsed(code: str) -> list[ast.AST]:
    """Return an expression, or statements."""
    body = ast.parse(code).body
    return [body[0].value] if len(body) == 1 and isinstance(body[0], ast.Expr) else list(body)


def _places(tree: ast.AST) -> Iterator[_Place]:
    for parent in ast.walk(tree):
        for field, value in ast.iter_fields(parent):
            if isinstance(value, list):
                for start, node in enumerate(value):
                    if isinstance(node, PARTS):
                        yield _Place(parent, field, start, [node], {})
            elif isinstance(value, PARTS):
                yield _Place(parent, field, None, [value], {})


def _matches(function: ast.AST, code: str, of: str = "", *, as_statements: bool = False) -> Iterator[_Place]:
    """Yield each place of the function that has this code, or of the expression of it that has the code `of`."""
    around = _only(of, _matches(function, of)).nodes[0] if of else function
    pattern = _parsed(code)
    if as_statements and isinstance(pattern[0], ast.expr):
        pattern = list(ast.parse(code).body)
    known, free = names_of(function), _locals_of(function)
    for place in _places(around):
        nodes: Sequence[ast.AST] = place.nodes
        if len(pattern) > 1 and place.start is not None:
            nodes = getattr(place.parent, place.field)[place.start : place.start + len(pattern)]
        names: dict[str, str] = {}
        if len(nodes) == len(pattern) and all(map(_Likeness(known, free, names).alike, pattern, nodes)):
            yield place._replace(nodes=nodes, names=names)


class _Likeness(NamedTuple):
    """What makes code of a change like code of a function; `names` says which name is which."""

    known: set[str]
    free: set[str]
    names: dict[str, str]

    def alike(self, pattern: object, node: object) -> bool:
        """Return whether the two are alike."""
        if _is_any(pattern) and isinstance(node, ast.expr):
            return True
        if isinstance(pattern, ast.Name) and isinstance(node, ast.Name):
            return self._same(pattern.id, node.id)
        if isinstance(pattern, list) and isinstance(node, list):
            any_block = len(pattern) == 1 and isinstance(pattern[0], ast.Expr) and _is_any(pattern[0].value)
            return any_block or (len(pattern) == len(node) and all(map(self.alike, pattern, node)))
        if not isinstance(pattern, ast.AST) or type(pattern) is not type(node):
            return pattern == node
        if isinstance(pattern, ast.Call) and isinstance(node, ast.Call) and list(map(_is_any, pattern.args)) == [True]:
            return self.alike(pattern.func, node.func)
        return all(
            self.alike(getattr(pattern, field, None), getattr(node, field, None))
            for field in pattern._fields
            if field not in {"ctx", "kind", "type_comment"}
        )

    def _same(self, name: str, other: str) -> bool:
        renamed = name not in self.known and other in self.free and other not in self.names.values()
        return self.names.setdefault(name, other if renamed else name) == other


def _is_any(node: object) -> bool:
    return isinstance(node, ast.Constant) and node.value is ...


def _renamed(tree: ast.AST, names: dict[str, str]) -> ast.AST:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            node.id = names.get(node.id, node.id)
    return tree


def _only(what: str, found: Iterable[Found]) -> Found:
    several = list(found)
    if len(several) != 1:
        raise ValueError(f"`{what}` is there {len(several)} times")
    return several[0]


def _item(place: _Place, above: dict[int, _Place]) -> _Place | None:
    """Return what is taken out for a place: itself, or the statement or argument of which it is the value."""
    while isinstance(place.parent, ast.Await | ast.Starred | ast.keyword | ast.Expr) or (
        place.field == "value" and isinstance(place.parent, ast.Assign | ast.AnnAssign | ast.AugAssign)
    ):
        place = above[id(place.parent)]
    listed = place.start is not None and not isinstance(place.parent, ast.Compare)
    return place if listed or isinstance(place.parent, ast.BinOp) else None


def _take_out(place: _Place, above: dict[int, _Place]) -> None:
    parent = place.parent
    if isinstance(place.nodes[0], ast.stmt):
        place.put(ast.Pass())
    elif isinstance(parent, ast.BinOp):
        above[id(parent)].put(parent.right if place.field == "left" else parent.left)
    elif isinstance(parent, ast.Dict):
        del parent.keys[place.start], parent.values[place.start]
    else:
        place.put()
    if isinstance(parent, ast.BoolOp) and len(parent.values) == 1:
        above[id(parent)].put(*parent.values)


def _leaves(node: ast.AST) -> Iterator[tuple[str, int, str]]:
    """Yield the name, literal or comparisons of a node itself: the field, which of several, and how it is written."""
    if isinstance(node, ast.Name):
        yield "id", 0, node.id
    elif isinstance(node, ast.Attribute):
        yield "attr", 0, node.attr
    elif isinstance(node, ast.Constant):
        yield "value", 0, repr(node.value)
    elif isinstance(node, ast.Compare):
        for index, operator in enumerate(node.ops):
            yield "ops", index, _SIGNS[type(operator)]
