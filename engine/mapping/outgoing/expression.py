"""The grammar of outgoing rules: `birthDate | date`, `gender | code(administrative-sex)`, `use | when use != old`.

expression  = alternative { "| else" alternative }
alternative = ( path | 'quoted text' ) { "|" stage }           (path: a FHIR path, see path.py)
stage       = function [ "(" argument { argument } ")" ] | "when" condition | "unless" condition
condition   = term { "and" term } { "or" ... }                 ("and" binds tighter than "or")
term        = [ "not" ] path { "|" function } [ test ]
test        = "exists" | ( "=" | "!=" ) value | [ "not" ] "in" "(" value { "," value } ")"
            | [ "not" ] ( "starts-with" | "ends-with" | "matches" ) value

A path that finds several values fulfils a test if one of them does; `!=` and `not in` if there is one, and none is.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from engine.mapping.language.expression import (
    ARGUMENT,
    MAX_LENGTH,
    MAX_TEXTS,
    STAGE,
    ExpressionError,
    FunctionCall,
    unquoted,
)
from engine.mapping.outgoing.path import FhirPath, parse_fhir_path

TEST: Final = re.compile(
    r"(?P<op>!=|=) *(?P<value>[^ ].*)"
    r"|(?P<none>not +)?in +\((?P<values>[^()]*)\)"
    r"|(?P<never>not +)?(?P<word>starts-with|ends-with|matches) +(?P<text>[^ ].*)"
    r"|exists"
)


@dataclass(frozen=True, slots=True)
class PathTerm:
    """One test of the values of a path, as functions leave them; without `values` that there is one."""

    path: FhirPath
    stages: tuple[FunctionCall, ...]
    values: tuple[str, ...]
    negated: bool
    unlike: bool = False
    test: str = ""


PathCondition = tuple[tuple[PathTerm, ...], ...]


@dataclass(frozen=True, slots=True)
class PathGuard:
    """A stage that lets values through only when, or unless, the condition holds."""

    condition: PathCondition
    unless: bool


@dataclass(frozen=True, slots=True)
class OutgoingAlternative:
    """One alternative: a path or a constant, and its stages."""

    head: FhirPath | str
    stages: tuple[FunctionCall | PathGuard, ...]


@lru_cache(maxsize=MAX_TEXTS)
def parse_outgoing(text: str) -> tuple[OutgoingAlternative, ...]:
    """Return the alternatives of an expression, in order; ExpressionError if it is invalid."""
    _check_length(text)
    alternatives: list[list[str]] = [[]]
    for piece in pieces_of(text):
        if piece.startswith("else "):
            if not alternatives[-1]:
                raise ExpressionError("nothing before 'else'", "write PATH | else PATH")
            alternatives.append([piece.removeprefix("else ").strip()])
        else:
            alternatives[-1].append(piece)
    return tuple(OutgoingAlternative(_head(one[0]), tuple(map(_stage, one[1:]))) for one in alternatives)


@lru_cache(maxsize=MAX_TEXTS)
def parse_path_condition(text: str) -> PathCondition:
    """Return a condition: alternatives of terms that must all hold; ExpressionError if it is invalid."""
    _check_length(text)
    return tuple(tuple(map(_term, _apart(group, "and"))) for group in _apart(text.strip(), "or"))


def _check_length(text: str) -> None:
    if len(text) > MAX_LENGTH:
        raise ExpressionError(f"a text of {len(text)} characters", f"shorten it to at most {MAX_LENGTH}")


def _head(text: str) -> FhirPath | str:
    if len(text) >= 2 and text[0] == text[-1] == "'" and "'" not in text[1:-1]:
        return text[1:-1]
    return parse_fhir_path(text)


def _stage(text: str) -> FunctionCall | PathGuard:
    for word in ("when", "unless"):
        if text.startswith(word + " "):
            return PathGuard(parse_path_condition(text.removeprefix(word).strip()), word == "unless")
    return _call(text)


def _call(text: str) -> FunctionCall:
    match = STAGE.fullmatch(text)
    if match is None:
        raise ExpressionError(f"found {text!r}", "expected a function such as date or code(table), when or unless")
    return FunctionCall(match[1], tuple(ARGUMENT.findall(match[2])) if match[2] else ())


def _term(text: str) -> PathTerm:
    negated = text.startswith("not ")
    source, _, test = _source(text.removeprefix("not ").strip())
    head, *stages = pieces_of(source)
    path, calls = parse_fhir_path(head), tuple(map(_call, stages))
    if not test:
        return PathTerm(path, calls, (), negated)
    match = TEST.fullmatch(test)
    if match is None:
        raise ExpressionError(f"found {test!r}", "expected = value, != value, in (a, b), starts-with text, or exists")
    if match["values"] is not None:
        values = tuple(unquoted(one) for one in match["values"].split(","))
        return PathTerm(path, calls, values, negated, unlike=bool(match["none"]))
    value = match["value"] or match["text"]
    if value is None:
        return PathTerm(path, calls, (), negated)
    if value[0] != "'" and " " in value:
        raise ExpressionError(f"found {text!r}", "expected PATH = value, 'several words' in quotes, and, or")
    unlike = match["op"] == "!=" or bool(match["never"])
    return PathTerm(path, calls, (unquoted(value),), negated, unlike, match["word"] or "")


def _source(text: str) -> tuple[str, str, str]:
    """Return the path and functions of a term, and its test; what is in quotes or parentheses belongs to the path."""
    for at, depth, character in _outside(text):
        if depth == 0 and (character in "=!" or (character == " " and not _goes_on(text, at))):
            return text[:at].strip(), "", text[at:].strip()
    return text, "", ""


def _goes_on(text: str, at: int) -> bool:
    """True if a function follows a blank, or comes before it: `system | own-place`."""
    return text[at:].lstrip().startswith("|") or text[:at].rstrip().endswith("|")


def _outside(text: str) -> list[tuple[int, int, str]]:
    """Return each character outside of quotes with its place, and how deep in parentheses it is."""
    found, depth, quoted = [], 0, False
    for at, character in enumerate(text):
        if character == "'":
            quoted = not quoted
        elif not quoted:
            depth += (character == "(") - (character == ")")
            found.append((at, depth, character))
    return found


def pieces_of(text: str) -> list[str]:
    """Split at bars outside of quotes and parentheses; the parts without blanks around them."""
    cuts = [at for at, depth, character in _outside(text) if depth == 0 and character == "|"]
    edges = zip([0, *(at + 1 for at in cuts)], [*cuts, len(text)], strict=True)
    return [text[start:end].strip() for start, end in edges]


def _apart(text: str, word: str) -> list[str]:
    """Split at a word outside of quotes and parentheses; the parts without blanks around them."""
    starts = [at for at, depth, character in _outside(text) if depth == 0 and character == " "]
    cuts = [at for at in starts if text[at + 1 : at + 2 + len(word)] == f"{word} "]
    edges = zip([0, *(at + len(word) + 2 for at in cuts)], [*cuts, len(text)], strict=True)
    return [text[start:end].strip() for start, end in edges]
