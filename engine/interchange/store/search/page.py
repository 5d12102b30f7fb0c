"""Paging: how many records a page holds, where it starts (by offset or cursor), and the limits of both.

A cursor says behind which key the next page starts. Keys are given in order of creation and never change, so that
whatever is written meanwhile, a walk repeats no record and misses none that was there when it began.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from engine.interchange.kernel.outcome import Category, refuse
from engine.interchange.kernel.seal import Payload, seal, unseal

# How an answer is written, which every interaction takes; links keep it as it was given.
FORMAT: Final = frozenset({"_format", "_pretty"})
# Parameters of the answer's form, not of the search. A total is always exact, where any is asked for.
FORM: Final = FORMAT | {"_total", "_totalMethod"}
TOTALS: Final = ("none", "estimate", "accurate")
# The part of a resource that is shown: of a match, a version, or what is read.
PART: Final = frozenset({"_elements", "_summary"})
# Those that say what of the matches is shown, in which order, and with what; the last may be given several times.
INCLUDES: Final = frozenset({"_include", "_revinclude"})
SHAPE: Final = FORM | PART | {"_sort"} | INCLUDES
NO_CRITERIA: Final = SHAPE | {"_count", "_offset", "_paging", "_cursor"}

Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Paging:
    """How results of a type are paged; `depth` None: no limit to offsets; `strict`: more than `most` is refused."""

    most: int = 100
    usual: int = 20
    strict: bool = False
    depth: int | None = None
    cursor: bool = False


@dataclass(frozen=True, slots=True)
class ResultPage:
    """The part of a result that is asked for; `cursor` is None on the first page of a walk by cursor, and by offset.

    `form` are the parameters that say what of the matches is shown, with what, and how it is written.
    """

    count: int
    offset: int = 0
    cursored: bool = False
    cursor: str | None = None
    form: Pairs = ()


def take_page(pairs: Pairs, paging: Paging) -> tuple[ResultPage, Pairs]:
    """Return the page that a query asks for and the rest of its parameters; RefusedError beyond the limits."""
    if not any(name in NO_CRITERIA for name, _ in pairs):
        return ResultPage(paging.usual), pairs
    given = _once((name, value) for name, value in pairs if name in NO_CRITERIA)
    cursored = _cursored(given, paging)
    count = _whole(given, "_count", paging.usual)
    offset = _whole(given, "_offset", 0)
    if cursored and offset:
        text = "_offset parameter not supported with cursored request"
        raise refuse(Category.BAD_VALUE, text, location="http._offset")
    if count > paging.most and paging.strict:
        raise refuse(Category.BAD_VALUE, f"_count may be at most {paging.most}.", location="http._count")
    if paging.depth is not None and not cursored and offset + count >= paging.depth:
        raise refuse(Category.TOO_COSTLY, "Maximum search depth exceeded", location="http._offset")
    form = tuple((name, value) for name, value in pairs if name in SHAPE)
    rest = tuple((name, value) for name, value in pairs if name not in NO_CRITERIA)
    return ResultPage(min(count, paging.most), offset, cursored, given.get("_cursor"), form), rest


def _cursored(given: Mapping[str, str], paging: Paging) -> bool:
    wanted = given.get("_paging", "cursor")
    if wanted != "cursor":
        raise refuse(Category.BAD_VALUE, "_paging may only be cursor.", location="http._paging")
    if not given.keys() & {"_paging", "_cursor"}:
        return False
    if not paging.cursor:
        text = "Paging by cursor is not supported on this type; use _offset."
        raise refuse(Category.UNSUPPORTED, text, location="http._paging")
    return True


def _once(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    given: dict[str, str] = {}
    for name, value in pairs:
        if name in given and name not in INCLUDES:
            raise refuse(Category.BAD_VALUE, f"{name} is given more than once.", location=f"http.{name}")
        given[name] = value
    return given


def _whole(given: Mapping[str, str], name: str, default: int) -> int:
    text = given.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise refuse(Category.BAD_VALUE, f"{name} must be a whole number, 0 or more.", location=f"http.{name}")
    return int(text)


@dataclass(frozen=True, slots=True)
class CursorWalk:
    """One walk by cursor at one moment: what its cursors are signed with and bound to, and how long they hold."""

    secret: bytes = field(repr=False)
    bound: Payload
    now_ms: int
    validity_s: int

    def start(self, page: ResultPage) -> int:
        """Return the key behind which a page starts, 0 for the first; RefusedError 400 or 410 for a bad cursor."""
        if page.cursor is None:
            return 0
        return int(unseal(self.secret, self.bound, page.cursor, self.now_ms, "http._cursor")[0])

    def following(self, page: ResultPage, last_key: int) -> ResultPage:
        """Return the page behind a key; its cursor's time begins now."""
        cursor = seal(self.secret, self.bound, (last_key,), self.now_ms + self.validity_s * 1000)
        return ResultPage(page.count, cursored=True, cursor=cursor, form=page.form)


def walk_of(tenant: str, version: str, type_name: str, page: ResultPage, criteria: Pairs) -> Payload:
    """Return what the cursors of a walk are bound to; in whatever order a client repeats its criteria."""
    return ("cursor", tenant, version, type_name, page.count, *(part for pair in sorted(criteria) for part in pair))
