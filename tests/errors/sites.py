"""Where the code tells an author what is wrong: every statement that makes such a text, and every text in it.

Read from the code itself, so that a new one counts as soon as it is written.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[2]
ROOMS: Final = ("engine/mapping", "engine/config", "engine/pipeline/configuration.py")
# Modules whose texts are of something else than a file that somebody wrote.
ELSEWHERE: Final = {
    "engine/mapping/authoring/draft_authorities.py": "remarks in a file that is drafted from a feed",
    "engine/mapping/authoring/draft_channel.py": "remarks in a file that is drafted from a feed",
    "engine/mapping/authoring/feed.py": "what the bytes of a message are, in a report on a feed",
}
# Calls that note a problem: place, what was found, what would do.
NOTES: Final = frozenset({"Problem", "problem", "add", "_add"})
# Calls that look for mistakes, and note those that they find.
ASKS: Final = frozenset({"keys", "_keys", "has"})
RAISED: Final = frozenset({"ValueError", "LookupError", "ExpressionError", "PydanticCustomError"})
# What a key of a file is told to be, what a function of the language does, and patterns: no errors.
NOT_TOLD: Final = frozenset({"Field", "Function", "compile", "split"})
# What functions return or yield that say what is wrong and what would do.
FAULTS: Final = ("Fault", "Placed", "tuple[str, str]", "str, str]")


class Site(NamedTuple):
    """One statement that makes a text of an error."""

    file: str
    line: int
    end: int
    source: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.source}"


class Text(NamedTuple):
    """A piece of text with a blank in it that stands in a module which tells authors something."""

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text!r}"


@cache
def modules() -> dict[str, ast.Module]:
    """Return every module of the rooms that authors' files go through, by its path."""
    rooms = (ROOT / room for room in ROOMS)
    found = sorted(path for room in rooms for path in ([room] if room.is_file() else room.rglob("*.py")))
    parsed = {str(path.relative_to(ROOT)): ast.parse(path.read_text("utf-8")) for path in found}
    return {file: tree for file, tree in parsed.items() if file not in ELSEWHERE}


@cache
def sites() -> tuple[Site, ...]:
    """Return every statement that makes a text of an error."""
    return tuple(site for file, tree in modules().items() for site in _sites(file, tree))


@cache
def asked() -> tuple[Site, ...]:
    """Return every statement that has a map's keys, or the name of an element, looked at."""
    return tuple(site for file, tree in modules().items() for site in _sites(file, tree, asks=True))


@cache
def texts() -> tuple[Text, ...]:
    """Return every piece of text in the modules with sites that can be part of what is told."""
    told = {site.file for site in sites()}
    return tuple(text for file in sorted(told) for text in _texts(file, modules()[file]))


def _sites(file: str, tree: ast.Module, *, asks: bool = False) -> Iterator[Site]:
    tells = _asks if asks else _tells
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        for statement in _statements(function.body, conditions=asks):
            if any(tells(node, function) for node in _parts(statement)):
                source = ast.unparse(statement).splitlines()[0]
                yield Site(file, statement.lineno, statement.end_lineno or statement.lineno, source)


def _statements(body: list[ast.stmt], *, conditions: bool) -> Iterator[ast.stmt | ast.expr]:
    """Yield the statements of a function that have none within them; those of functions in it are not its own.

    `conditions`: also what stands in the head of the others.
    """
    for statement in body:
        inner = [getattr(statement, name, []) for name in ("body", "orelse", "finalbody")]
        inner += [part.body for name in ("handlers", "cases") for part in getattr(statement, name, [])]
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            continue
        if any(inner):
            for one in inner:
                yield from _statements(one, conditions=conditions)
            if conditions and isinstance(statement, ast.If):
                yield statement.test
        else:
            yield statement


def _parts(statement: ast.AST) -> Iterator[ast.AST]:
    """Yield a statement and all below it, each with the statement that it is part of."""
    for node in ast.walk(statement):
        yield node
        if isinstance(node, ast.Yield | ast.YieldFrom | ast.Return):
            for inner in ast.walk(node):
                inner.given = True  # type: ignore[attr-defined]


def _asks(node: ast.AST, _: ast.FunctionDef) -> bool:
    return isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ASKS and len(node.args) > 1


def _tells(node: ast.AST, function: ast.FunctionDef) -> bool:
    if isinstance(node, ast.Call):
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        return name in NOTES and len(node.args) > 2 and not isinstance(node.args[-1], ast.Starred)
    if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
        return getattr(node.exc.func, "id", "") in RAISED
    if isinstance(node, ast.Return) and "fault" in function.name:
        return not isinstance(node.value, ast.Constant) and _is_text(node.value)
    gives = ast.unparse(function.returns) if function.returns else ""
    if not isinstance(node, ast.Tuple) or not getattr(node, "given", False) or not any(one in gives for one in FAULTS):
        return False
    return len(node.elts) == 3 or (len(node.elts) == 2 and any(map(_is_text, node.elts)))


def _is_text(node: ast.AST | None) -> bool:
    """Say whether an expression is prose: a text with a blank in it, an f-string, or a hint of what is near."""
    if isinstance(node, ast.IfExp):
        return _is_text(node.body) or _is_text(node.orelse)
    if isinstance(node, ast.BoolOp):
        return any(map(_is_text, node.values))
    if isinstance(node, ast.Call):
        return getattr(node.func, "id", "") in {"nearest", "folded", "str"}
    if isinstance(node, ast.Name):
        return node.id == "expected"
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and " " in str(node.value))


def _texts(file: str, tree: ast.Module) -> Iterator[Text]:
    skipped = {id(inner) for node in ast.walk(tree) if _untold(node) for inner in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            for text in re.split(r"\{\w+\}", node.value):
                if " " in text.strip() and "\n" not in text:
                    yield Text(file, node.lineno, text.strip())


def _untold(node: ast.AST) -> bool:
    """Say whether a part of a module says nothing to authors: docstrings, descriptions of keys, patterns, names."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    if isinstance(node, ast.ClassDef):
        return any(getattr(base, "id", "") == "StrEnum" for base in node.bases)
    if isinstance(node, ast.Set):
        return True
    return isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in NOT_TOLD
