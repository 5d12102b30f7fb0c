"""Comparisons of conditions (numbers, dates, beginnings, patterns in linear time), and what one implies of another.

Patterns are those of RE2 (google-re2), whose time is linear in the text for any pattern; look-around and
back-references, which need backtracking, are not supported.

A path reads one text, so that `PID-8 = F` and `PID-8 = M` exclude each other. The check is sound but incomplete:
`PID-8` and `not PID-8` together always hold, which it does not find.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from functools import lru_cache
from operator import ge, gt, le, lt
from typing import Any, Final

from engine.mapping.files.reference import segments
from engine.mapping.language.expression import MAX_TEXTS, ORDERED, Condition, SegmentPath, Source, Term

NUMBER: Final = re.compile(r"[+-]?\d{1,15}(?:\.\d{1,15})?")
DATE: Final = re.compile(r"\d{4}(?:-\d{2}(?:-\d{2})?)?")
STAMP: Final = re.compile(r"(\d{4,})(?:\.\d+)?(?:[+-]\d{4})?")
DAY: Final = 8
COMPARE: Final = {"<": lt, "<=": le, ">": gt, ">=": ge}
TIMES: Final = frozenset({"TS", "DTM", "DT"})
MAX_PATTERN: Final = 200
# The costliest pattern takes 3 microseconds a character, seconds for a text of 1 MiB.
MAX_TEXT: Final = 10_000
# Bytes that a compiled pattern may take.
MAX_MEMORY: Final = 1 << 20

Holds = Callable[[Any], bool]


def other_than(holds: Holds) -> Holds:
    """Return the opposite comparison; neither holds for an absent or a deleted value."""
    return lambda found: isinstance(found, str) and not holds(found)


def comparison_of(test: str, value: str) -> Holds:
    """Return a comparison as a function of the message's value: False if absent, deleted or of another kind."""
    if test == "matches":
        return _pattern(value)
    if test in ORDERED:
        return _dates(test, value) if _is_date(value) else _numbers(test, value)
    holds = str.startswith if test == "starts-with" else str.endswith
    return lambda found: isinstance(found, str) and holds(found, value)


def comparison_fault(term: Term) -> tuple[str, str] | None:
    """Return what is wrong with a comparison and what is expected; None for a good one."""
    value = term.values[0]
    if not value:
        return f"{term.test} without a value", f"write {term.source} {term.test} VALUE"
    if term.test in ORDERED:
        return _order_fault(term, value)
    return _pattern_fault(value) if term.test == "matches" else None


def _order_fault(term: Term, value: str) -> tuple[str, str] | None:
    if not _is_date(value) and not NUMBER.fullmatch(value):
        return f"{term.test} {value!r}", "expected a number such as 18, or a date such as 2008-01-01"
    source = term.source
    field = segments().get(source.segment, {}).get(source.field) if isinstance(source, SegmentPath) else None
    if field is not None and field.type_ in TIMES and not _is_date(value):
        return f"the number {value} for a date", "write a date such as 2008-01-01, or 2008-01"
    return None


def _pattern_fault(value: str) -> tuple[str, str] | None:
    if len(value) > MAX_PATTERN:
        return f"a pattern of {len(value)} characters", f"shorten it to at most {MAX_PATTERN}"
    try:
        _compiled(value)
    except ValueError as error:
        return f"the pattern {value!r} ({error})", "expected a pattern of RE2, such as '[A-Z]{2}[0-9]+'"
    return None


def _is_date(value: str) -> bool:
    # Four digits alone are a number.
    return bool(DATE.fullmatch(value)) and "-" in value


def _dates(test: str, value: str) -> Holds:
    compare, day = COMPARE[test], value.replace("-", "")
    size = len(day)

    def holds(found: Any) -> bool:
        # Two dates are compared at the coarser precision.
        stamp = STAMP.fullmatch(found) if isinstance(found, str) else None
        if stamp is None:
            return False
        digits = stamp[1][:DAY]
        least = min(size, len(digits))
        return bool(compare(digits[:least], day[:least]))

    return holds


def _numbers(test: str, value: str) -> Holds:
    compare, number = COMPARE[test], Decimal(value)
    return lambda found: isinstance(found, str) and bool(NUMBER.fullmatch(found)) and compare(Decimal(found), number)


def _pattern(value: str) -> Holds:
    pattern = _compiled(value)

    def holds(found: Any) -> bool:
        try:
            return isinstance(found, str) and len(found) <= MAX_TEXT and pattern.fullmatch(found) is not None
        except UnicodeError:
            # An invalid character matches no pattern.
            return False

    return holds


@lru_cache(maxsize=MAX_TEXTS)
def _compiled(pattern: str) -> Any:
    """Compile a pattern; ValueError, with RE2's own words, if invalid. The library is loaded at the first use."""
    import re2  # noqa: PLC0415 - few mappings have patterns

    options = re2.Options()
    options.log_errors = False
    options.max_mem = MAX_MEMORY
    try:
        return re2.compile(pattern, options=options)
    except re2.error as error:
        said = error.args[0] if error.args else ""
        raise ValueError(said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)) from error


def covers(earlier: Condition, later: Condition) -> bool:
    """True if the earlier condition certainly holds wherever the later one does."""
    return all(any(_implied(other, group) for other in earlier) for group in later)


def never_holds(condition: Condition) -> bool:
    """True if in each alternative one term excludes another."""
    return all(any(_implies(one, _turned(other)) for one in group for other in group) for group in condition)


def _implied(wanted: tuple[Term, ...], group: tuple[Term, ...]) -> bool:
    return all(any(_implies(one, term) for one in group) for term in wanted)


def _implies(one: Term, other: Term) -> bool:
    """True if a term certainly holds wherever another one does."""
    if _read(one.source) != _read(other.source):
        return False
    if one.negated and not other.negated:
        # For an empty field the one holds, and the other does not.
        return False
    if not other.values and not other.negated:
        return True
    of, others = (replace(term, negated=False, unlike=False) for term in (one, other))
    if one.negated != one.unlike:
        return other.negated != other.unlike and _narrower(others, of)
    return _apart(of, others) if other.negated != other.unlike else _narrower(of, others)


def _narrower(one: Term, other: Term) -> bool:
    """The same for two terms that require one of their values."""
    if not other.values or (one.test, one.values) == (other.test, other.values):
        return True
    if _is_list(one):
        return all(_holds(other, value) for value in one.values)
    if one.test == other.test == "ends-with":
        return one.values[0].endswith(other.values[0])
    return one.test == other.test == "starts-with" and one.values[0].startswith(other.values[0])


def _apart(one: Term, other: Term) -> bool:
    """True if two terms that require one of their values certainly never hold together."""
    for listed, required in ((one, other), (other, one)):
        if _is_list(listed):
            return bool(required.values) and not any(_holds(required, value) for value in listed.values)
    both = [term.values[0] for term in (one, other) if term.test == "starts-with"]
    return len(both) == 2 and not (both[0].startswith(both[1]) or both[1].startswith(both[0]))


def _holds(term: Term, value: str) -> bool:
    if not term.test:
        return value in term.values
    return comparison_fault(term) is None and comparison_of(term.test, term.values[0])(value)


def _is_list(term: Term) -> bool:
    return bool(term.values) and not term.test


def _turned(term: Term) -> Term:
    return replace(term, negated=not term.negated)


def _read(source: Source) -> Source:
    """Return a path with its defaults filled in: `PID-5` reads PID-5(1).1.1."""
    if not isinstance(source, SegmentPath):
        return source
    repetition = 0 if source.where else source.repetition or 1
    return replace(
        source, repetition=repetition, component=source.component or 1, subcomponent=source.subcomponent or 1
    )
