"""The grammar of expressions: `PID-7 | date`, `XTN.12 | else XTN.1`, `home | unless XTN.2`.

expression  = alternative { "| else" alternative }
alternative = head { "|" stage }
head        = path | word | 'quoted text'          (paths begin with a capital letter, bare words do not)
path        = PID-3 | PID-3(2).4.1 | PID-3[CX.5=MR].1 | CX.4.1 | CX
stage       = function [ "(" argument { argument } ")" ] | Resource | "when" condition | "unless" condition
argument    = word | path | 'quoted text'
condition   = term { "and" term } { "or" ... }     ("and" binds tighter than "or"; no parentheses but for lists)
term        = [ "not" ] ( path | "event" ) [ test ]
test        = "exists" | ( "=" | "!=" | "<" | "<=" | ">" | ">=" ) value | [ "not" ] "in" "(" value { "," value } ")"
            | [ "not" ] ( "starts-with" | "ends-with" | "matches" ) value

`str` writes a parsed expression as an author would.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from engine.mapping.files.overlay import FIELD

PART: Final = re.compile(r"([A-Z]{2,3})(?:\.(\d{1,2})(?:\.(\d{1,2}))?)?")
SEGMENT: Final = re.compile(r"[A-Z][A-Z0-9]{2}")
STAGE: Final = re.compile(r"([a-z][a-z0-9-]*|[A-Z]{2,3})(?:\(((?:'[^']*'|[^()'])*)\))?")
ARGUMENT: Final = re.compile(r"'[^']*'|[^\s,']+(?:'[^']*')?")
RESOURCE: Final = re.compile(r"[A-Z][a-z]+(?:[A-Z][a-z]+)*")
TERM: Final = re.compile(
    r"(?P<not>not +)?(?P<path>[^ =!<>]+)"
    r"(?: *(?P<op>=|!=|<=|<|>=|>) *(?P<value>[^ ].*)"
    r"| +(?P<none>not +)?in +(?:\((?P<values>[^()]*)\)|\[(?P<listed>[^\[\]]*)\])"
    r"| +(?P<never>not +)?(?P<word>starts-with|ends-with|matches) +(?P<text>[^ ].*)"
    r"| +exists)?"
)
# A word outside of quotes, or quoted text.
PIECE: Final = re.compile(r"'[^']*'|[^']+|'")
EVENT: Final = "event"
ORDERED: Final = frozenset({"<", "<=", ">", ">="})
MAX_LENGTH: Final = 1000
# Every channel and every case compiles the same files.
MAX_TEXTS: Final = 4096


class ExpressionError(ValueError):
    """The text is not an expression; `found` and `expected` say why."""

    def __init__(self, found: str, expected: str) -> None:
        super().__init__(f"{found}; {expected}")
        self.found = found
        self.expected = expected


@dataclass(frozen=True, slots=True)
class SegmentPath:
    """A path into a segment; 0 stands for what the path leaves out. `type_`, `where` and `equals`: a predicate."""

    segment: str
    field: int
    repetition: int = 0
    component: int = 0
    subcomponent: int = 0
    type_: str = ""
    where: int = 0
    equals: str = ""

    def __str__(self) -> str:
        choice = f"({self.repetition})" if self.repetition else ""
        if self.where:
            choice = f"[{self.type_}.{self.where}={self.equals}]"
        return f"{self.segment}-{self.field}{choice}{_below(self.component, self.subcomponent)}"


@dataclass(frozen=True, slots=True)
class RepetitionPath:
    """A path into the repetition at hand: `CX` is all of it, `CX.4` a component, `CX.4.1` a subcomponent."""

    type_: str
    component: int = 0
    subcomponent: int = 0

    def __str__(self) -> str:
        return self.type_ + _below(self.component, self.subcomponent)


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal value."""

    value: str

    def __str__(self) -> str:
        return f"'{self.value}'"


Head = SegmentPath | RepetitionPath | Constant
Source = SegmentPath | RepetitionPath | str


@dataclass(frozen=True, slots=True)
class Term:
    """One test: that the source is valued (`values` empty), or is one of the values.

    `unlike`: that it has a value, and none of these (`!=`, `not in`). `negated`: a `not` before all of it inverts
    it, so that it holds for an empty source, too. `test` names another comparison, of the source with the one value:
    `<`, `<=`, `>`, `>=`, `starts-with`, `ends-with` or `matches`.
    """

    source: Source
    values: tuple[str, ...]
    negated: bool
    test: str = ""
    unlike: bool = False

    def __str__(self) -> str:
        subject = f"{'not ' * self.negated}{self.source}"
        if not self.values:
            return subject
        if self.test:
            return f"{subject} {'not ' * self.unlike}{self.test} {_written(self.values[0])}"
        if len(self.values) == 1:
            return f"{subject} {'!=' if self.unlike else '='} {_written(self.values[0])}"
        return f"{subject} {'not ' * self.unlike}in ({', '.join(self.values)})"


Condition = tuple[tuple[Term, ...], ...]


@dataclass(frozen=True, slots=True)
class Guard:
    """A stage that lets the value through only when, or unless, the condition holds."""

    condition: Condition
    unless: bool

    def __str__(self) -> str:
        groups = " or ".join(" and ".join(map(str, group)) for group in self.condition)
        return f"{'unless' if self.unless else 'when'} {groups}"


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A stage that applies a function of the registry, a data type (in capitals) or a resource file (Practitioner)."""

    name: str
    arguments: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.name}({' '.join(self.arguments)})" if self.arguments else self.name


@dataclass(frozen=True, slots=True)
class Alternative:
    """One alternative of an expression: a source and its stages."""

    head: Head
    stages: tuple[Guard | FunctionCall, ...]

    def __str__(self) -> str:
        return " | ".join(map(str, (self.head, *self.stages)))


Expression = tuple[Alternative, ...]


@lru_cache(maxsize=MAX_TEXTS)
def parse_expression(text: str) -> Expression:
    """Return the alternatives of an expression, in order; ExpressionError if it is invalid."""
    if len(text) > MAX_LENGTH:
        raise ExpressionError(f"an expression of {len(text)} characters", f"shorten it to at most {MAX_LENGTH}")
    alternatives: list[list[str]] = [[]]
    for piece in _split(text, "|"):
        if piece.startswith("else "):
            if not alternatives[-1]:
                raise ExpressionError("nothing before 'else'", "write PATH | else PATH")
            alternatives.append([piece.removeprefix("else ").strip()])
        else:
            alternatives[-1].append(piece)
    return tuple(_alternative(pieces) for pieces in alternatives)


def parse_condition(text: str) -> Condition:
    """Return a condition: alternatives of terms that must all hold; ExpressionError if it is invalid."""
    if len(text) > MAX_LENGTH:
        raise ExpressionError(f"a condition of {len(text)} characters", f"shorten it to at most {MAX_LENGTH}")
    return tuple(
        tuple(_term(term) for term in _words(alternative, "and")) for alternative in _words(text.strip(), "or")
    )


def parse_head(text: str) -> Head:
    """Return a path or a constant; ExpressionError if it is neither."""
    if len(text) >= 2 and text[0] == text[-1] == "'":
        return Constant(text[1:-1])
    path = parse_path(text)
    if path is not None:
        return path
    if not text or text[0].isupper() or " " in text:
        raise ExpressionError(
            f"found {text!r}", "expected a path such as PID-3.1 or CX.4, a word in small letters, or 'quoted text'"
        )
    if not text.isupper() and re.search("[-.]", text) and parse_path(text.upper()) is not None:
        raise ExpressionError(f"found {text!r}", f"did you mean {text.upper()!r}?")
    return Constant(text)


def parse_path(text: str) -> SegmentPath | RepetitionPath | None:
    """Return a path, or None if the text does not match the path grammar."""
    match = FIELD.fullmatch(text)
    if match:
        segment, field, repetition, type_, where, equals, component, subcomponent = match.groups()
        numbers = (int(number or 0) for number in (field, repetition, component, subcomponent, where))
        field_, repetition_, component_, subcomponent_, where_ = numbers
        return SegmentPath(segment, field_, repetition_, component_, subcomponent_, type_ or "", where_, equals or "")
    match = PART.fullmatch(text)
    return RepetitionPath(match[1], int(match[2] or 0), int(match[3] or 0)) if match else None


def _below(component: int, subcomponent: int) -> str:
    return "".join(f".{number}" for number in (component, subcomponent) if number)


def _alternative(pieces: list[str]) -> Alternative:
    return Alternative(parse_head(pieces[0]), tuple(_stage(piece) for piece in pieces[1:]))


def _stage(text: str) -> Guard | FunctionCall:
    for word in ("when", "unless"):
        if text.startswith(word + " "):
            return Guard(parse_condition(text.removeprefix(word)), word == "unless")
    if RESOURCE.fullmatch(text):
        return FunctionCall(text, ())
    match = STAGE.fullmatch(text)
    if match is None and text.count("(") > text.count(")"):
        raise ExpressionError(f"found {text!r}", "expected a parenthesis at its end")
    if match is None:
        raise ExpressionError(f"found {text!r}", "expected a function such as date or code(table), when or unless")
    return FunctionCall(match[1], tuple(ARGUMENT.findall(match[2])) if match[2] else ())


def _term(text: str) -> Term:
    match = TERM.fullmatch(text)
    if match is None:
        raise ExpressionError(
            f"found {text!r}", "expected PATH, PATH = value, PATH in (a, b), or PATH starts-with text"
        )
    source = EVENT if match["path"] == EVENT else parse_path(match["path"])
    if source is None:
        raise ExpressionError(f"found {match['path']!r}", "expected a path such as PID-30, or event")
    negated, unlike = bool(match["not"]), bool(match["none"] or match["never"]) or match["op"] == "!="
    values = match["values"] if match["values"] is not None else match["listed"]
    if values is not None:
        return Term(source, tuple(unquoted(value) for value in values.split(",")), negated, unlike=unlike)
    value = match["value"] or match["text"]
    if value and value[0] != "'" and not {" ", "="}.isdisjoint(value):
        raise ExpressionError(f"found {text!r}", "expected PATH = value, 'several words' in quotes, and, or")
    test = match["word"] or (match["op"] if match["op"] in ORDERED else "")
    return Term(source, (unquoted(value),) if value else (), negated, test, unlike)


def _written(value: str) -> str:
    """Return a value as a condition has it, in quotes if needed."""
    return value if value and not re.search(r"[\s'=]", value) else f"'{value}'"


def unquoted(text: str) -> str:
    """Return an argument or a value without blanks and quotes around it."""
    text = text.strip()
    return text[1:-1] if len(text) >= 2 and text[0] == text[-1] == "'" else text


def _words(text: str, word: str) -> list[str]:
    """Split at a word outside of quotes; the parts without blanks around them."""
    parts = [""]
    for piece in PIECE.findall(text):
        first, *others = [piece] if piece[0] == "'" else re.split(rf"(?:^| +){word}(?: +|$)", piece)
        parts[-1] += first
        parts += others
    return [part.strip() for part in parts]


def _split(text: str, separator: str) -> list[str]:
    """Split outside of quotes; the parts without blanks around them."""
    parts: list[str] = []
    current: list[str] = []
    quoted = False
    for character in text:
        if character == "'":
            quoted = not quoted
        if character == separator and not quoted:
            parts.append("".join(current).strip())
            current = []
        else:
            current.append(character)
    parts.append("".join(current).strip())
    return parts
