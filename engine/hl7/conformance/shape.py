"""Shapes: a whole field as one regular expression, so that a field which conforms costs one look.

Written for the usual delimiters. What a shape does not match may conform all the same (escapes, nulls, a 29th of
February, codes of another coding system): that is then looked at part by part.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from engine.hl7.conformance.part import CODING_SYSTEMS, SYSTEM_PATTERN, MessagePart
from engine.hl7.delimiters import STANDARD

USUAL: Final = STANDARD._replace(truncation="")
SEPARATORS: Final = (r"\^", "&")
MOST_CODES: Final = 400

_TEXT: Final = r'[^|^~\\&"\r\n]'
_MONTH: Final = r"(?:0[1-9]|1[0-2])"
_DAY: Final = (
    r"(?:(?:0[13578]|1[02])(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)(?:0[1-9]|[12][0-9]|30)|02(?:0[1-9]|1[0-9]|2[0-8]))"
)
_HOURS: Final = r"(?:[01][0-9]|2[0-3])(?:[0-5][0-9](?:[0-5][0-9](?:\.[0-9]{1,4})?)?)?"
_OFFSET: Final = r"(?:[+-](?:0[0-9]|1[0-4])[0-5][0-9])?"
_FORMS: Final = {
    "NM": r"[+-]?[0-9]{1,8}(?:\.[0-9]{1,6})?",
    "SI": r"[0-9]{1,4}",
    "DT": rf"[1-9][0-9]{{3}}(?:{_DAY}|{_MONTH})?",
    "TM": rf"{_HOURS}{_OFFSET}",
    "DTM": rf"[1-9][0-9]{{3}}(?:{_DAY}(?:{_HOURS})?|{_MONTH})?{_OFFSET}",
}


def shape_of(field: MessagePart) -> re.Pattern[str] | None:
    """Return what surely is a value of a field, or a list of them; None where nothing surely is."""
    if field.most == 0 or (not field.parts and field.primitive is None):
        return None
    one = _value(field, 0)
    return re.compile(f"{one}(?:~{one})*" if field.most < 0 else one)


def _value(part: MessagePart, depth: int) -> str:
    """Return the shape of one value; below its components and their subcomponents nothing is parted further."""
    if not part.parts:
        return _leaf(part)
    if depth == len(SEPARATORS):
        return _value(part.parts[0], depth)
    values = [_value(below, depth + 1) for below in part.parts]
    if part.coded:
        values[0] = _leaf(part)
    return _chain(values, [below.required for below in part.parts], SEPARATORS[depth])


def _chain(values: Sequence[str], required: Sequence[bool], separator: str) -> str:
    """Return values with a separator between them: what is not required may be empty, and cut off at the end."""
    values = [_valued(value) if need else value for value, need in zip(values, required, strict=True)]
    tail, needed = "", False
    for value, need in zip(reversed(values[1:]), reversed(required[1:]), strict=True):
        here = f"{separator}{value if need else f'(?:{value})?'}{tail}"
        needed = needed or need
        tail = here if needed else f"(?:{here})?"
    return f"(?:{values[0]}){'' if required[0] else '?'}{tail}"


def _valued(value: str) -> str:
    """Return the shape of a value that must be there: of its parts, all of which may be empty, one is not."""
    return rf"(?=&*[^\^&~]){value}" if re.fullmatch(value, "") else value


def _leaf(part: MessagePart) -> str:
    table, kind = part.table, part.primitive
    if table is not None and len(table.codes) <= MOST_CODES:
        codes = _words(table.codes)
        return f"(?:{codes}|{SYSTEM_PATTERN})" if table.number == CODING_SYSTEMS else codes
    if kind is None or table is not None:
        return "(?!)"
    longest = kind.longest or ""
    return _FORMS.get(kind.name) or f"{_TEXT}{{1,{longest}}}"


def _words(words: Iterable[str]) -> str:
    """Return what matches one of many words, by their letters in turn: a long list costs no more than a short one."""
    tails: dict[str, list[str]] = {}
    for word in words:
        tails.setdefault(word[:1], []).append(word[1:])
    ends = "" in tails
    found = [f"{re.escape(first)}{_words(rest)}" for first, rest in sorted(tails.items()) if first]
    return f"(?:{'|'.join(found)}){'?' if ends else ''}" if found else ""
