"""What one condition says of another, as far as their words tell: that it holds wherever the other does, or never.

A path reads one text, so that `PID-8 = F` and `PID-8 = M` exclude each other. What is not told here may be so all the
same: `PID-8` and `not PID-8` together hold always, and no term of the one is a term of the other.
"""

from dataclasses import replace

from engine.mapping.language.comparison import comparison_fault, comparison_of
from engine.mapping.language.expression import Condition, SegmentPath, Source, Term


def covers(earlier: Condition, later: Condition) -> bool:
    """Say whether the earlier condition surely holds wherever the later one does."""
    return all(any(_implied(other, group) for other in earlier) for group in later)


def never_holds(condition: Condition) -> bool:
    """Say whether in each alternative one term excludes another."""
    return all(any(_implies(one, _turned(other)) for one in group for other in group) for group in condition)


def _implied(wanted: tuple[Term, ...], group: tuple[Term, ...]) -> bool:
    return all(any(_implies(one, term) for one in group) for term in wanted)


def _implies(one: Term, other: Term) -> bool:
    """Say whether a term surely holds wherever another one does."""
    if _read(one.source) != _read(other.source):
        return False
    if one.negated and not other.negated:
        # Of an empty field the one holds, and the other does not.
        return False
    if not other.values and not other.negated:
        return True
    of, others = (replace(term, negated=False, unlike=False) for term in (one, other))
    if one.negated != one.unlike:
        return other.negated != other.unlike and _narrower(others, of)
    return _apart(of, others) if other.negated != other.unlike else _narrower(of, others)


def _narrower(one: Term, other: Term) -> bool:
    """Say so of two terms that ask for a value, and for no other than theirs."""
    if not other.values or (one.test, one.values) == (other.test, other.values):
        return True
    if _is_list(one):
        return all(_holds(other, value) for value in one.values)
    if one.test == other.test == "ends-with":
        return one.values[0].endswith(other.values[0])
    return one.test == other.test == "starts-with" and one.values[0].startswith(other.values[0])


def _apart(one: Term, other: Term) -> bool:
    """Say whether two terms that ask for a value, and for no other than theirs, surely never hold together."""
    for listed, beside in ((one, other), (other, one)):
        if _is_list(listed):
            return bool(beside.values) and not any(_holds(beside, value) for value in listed.values)
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
    """Return a path with what it leaves out: `PID-5` reads PID-5(1).1.1."""
    if not isinstance(source, SegmentPath):
        return source
    repetition = 0 if source.where else source.repetition or 1
    return replace(
        source, repetition=repetition, component=source.component or 1, subcomponent=source.subcomponent or 1
    )
