"""Implication between conditions, by their text: one holds wherever the other does, or never.

A path reads one text, so that `PID-8 = F` and `PID-8 = M` exclude each other. The check is sound but incomplete:
`PID-8` and `not PID-8` together always hold, which it does not find.
"""

from dataclasses import replace

from engine.mapping.language.comparison import comparison_fault, comparison_of
from engine.mapping.language.expression import Condition, SegmentPath, Source, Term


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
