"""The points of the service, and which test holds which: `python -m tests.interchange.points [--missing]`."""

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
TABLE = Path(__file__).with_name("points.txt")

SECTION = re.compile(r"== ([A-Z]{1,2}) \((now|later|engine)\) (.+)")
POINT = re.compile(r"([CN]-\d{3}) \[([SPFD](?:/[SPFD])*)\] (.+)")
WAITS = re.compile(r" +waits: (.+)")
NAMED = re.compile(r"\b([CN]-\d{3})(?:\s*(?:…|\.{2,3}|–|-|to)\s*([CN]-\d{3}))?\b")


@dataclass(frozen=True, slots=True)
class Point:
    """One observable fact: its id, section and tags, what it says, its part, and what of it waits for a later one."""

    id: str
    section: str
    tags: tuple[str, ...]
    sentence: str
    part: str
    waits: str = ""

    @property
    def in_scope(self) -> bool:
        """Say whether a test must hold it."""
        return self.part != "later" and not self.waits.startswith("wholly")


def points(text: str = "") -> dict[str, Point]:
    """Return every point by its id, in the table's order; ValueError: a line of the table cannot be read."""
    found: dict[str, Point] = {}
    section, part = "", ""
    table = (text or TABLE.read_text(encoding="utf-8")).partition("\n== ")
    for line in f"== {table[2]}".splitlines():
        if heading := SECTION.fullmatch(line):
            section, part = heading[1], heading[2]
        elif named := POINT.fullmatch(line):
            if named[1] in found:
                raise ValueError(f"{named[1]} stands twice")
            last = found[named[1]] = Point(named[1], section, tuple(named[2].split("/")), named[3], part)
        elif waits := WAITS.fullmatch(line):
            found[last.id] = Point(last.id, section, last.tags, last.sentence, part, waits[1])
        elif line:
            raise ValueError(f"neither a section nor a point: {line}")
    return found


def named_in(text: str, known: dict[str, Point]) -> frozenset[str]:
    """Return the ids that a text names; a range (`C-273..C-277`) names the points between its ends, and its ends."""
    ids: set[str] = set()
    for first, last in NAMED.findall(text):
        ids |= {first} | ({last} if last else set())
        ids |= {one for one in known if last and first < one < last}
    return frozenset(ids)


@cache
def holders(folder: Path = TESTS) -> dict[str, list[str]]:
    """Return, by point, the tests that name it (`file::test`); points that no table has are among them."""
    known = points()
    found: dict[str, list[str]] = {}
    for file in sorted(folder.rglob("test_*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        for name, text in _tests(tree):
            for one in named_in(text, known):
                found.setdefault(one, []).append(f"{file.relative_to(folder.parent).as_posix()}::{name}")
    return found


def missing() -> tuple[str, ...]:
    """Return the points in scope that no test names."""
    held = holders()
    return tuple(point.id for point in points().values() if point.in_scope and point.id not in held)


def _tests(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield each test's name, and its docstring with what its parameters are called, as one text."""
    tables = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            texts = [ast.get_docstring(node) or ""]
            for decorator in node.decorator_list:
                parts = list(ast.walk(decorator))
                parts += [
                    inner
                    for part in parts
                    if isinstance(part, ast.Name) and part.id in tables
                    for inner in ast.walk(tables[part.id])
                ]
                texts += [
                    part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)
                ]
            yield node.name, "\n".join(texts)


def main(arguments: list[str]) -> int:
    """Print the table with its tests, or with `--missing` what is open; 1 when a point in scope has no test."""
    held, gaps = holders(), missing()
    for point in points().values():
        if "--missing" in arguments and point.id not in gaps:
            continue
        mark = "OPEN" if point.id in gaps else f"({point.part})" if point.id not in held else ""
        lines = [f"{point.id} {point.sentence}", *(held.get(point.id) or [mark])]
        sys.stdout.write("\n    ".join(lines) + "\n")
    in_scope = sum(point.in_scope for point in points().values())
    sys.stdout.write(f"{in_scope - len(gaps)} of {in_scope} points in scope have a test\n")
    return 1 if gaps else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
