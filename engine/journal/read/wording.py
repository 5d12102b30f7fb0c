"""Words of a message: what full text is searched by, the same for what is indexed and for what is asked."""

import re
from typing import Final
from unicodedata import combining, normalize

from engine.errors import UndecodableMessageError
from engine.hl7.charset import coding_of, decode
from engine.hl7.header import character_set

# What ASCII becomes: letters in lower case, digits, and blanks in place of all else.
PLAIN: Final = "".join(chr(code).lower() if chr(code).isalnum() else " " for code in range(128)).ljust(256).encode()
WORD: Final = re.compile(r"[^\W_]+")
# Escapes that stand for delimiters and highlighting part words; they are no words themselves.
ESCAPE: Final = re.compile(r"\\(?:[FSTREHN]|\.[a-z]{2}[+-]?\d*|X[0-9A-F]*)\\")
BEGINNING: Final = "*"


def text_of(raw: bytes, charset: str = "") -> str:
    """Return the bytes of an entry as text: in the set that MSH-18 names, else `charset`, else UTF-8, else Latin-1."""
    declared, repetition = character_set(raw)
    if any(declared) or charset:
        return decode(raw, coding_of(declared, repetition, charset or "UTF-8"), replace=True)[0]
    try:
        return decode(raw, coding_of(b"", b"", "UTF-8"))[0]
    except UndecodableMessageError:
        return raw.decode("latin-1")


def words(text: str) -> list[str]:
    """Return the words of a text in their order: letters and digits, in lower case and without accents."""
    if text.count("\\") > 1:
        text = ESCAPE.sub(" ", text)
    if text.isascii():
        return text.encode().translate(PLAIN).decode().split()
    plain = "".join(mark for mark in normalize("NFKD", text) if not combining(mark))
    return WORD.findall(plain.casefold())


class Phrases:
    """What is asked: terms between spaces, each a run of whole words; after `*` the last may go on.

    `Quintero mari*` finds messages that hold both; `RB-1004` the words rb and 1004 one after the other.
    """

    def __init__(self, asked: str) -> None:
        terms = [(words(term), term.endswith(BEGINNING)) for term in asked.split()]
        self._terms = [(found, begins) for found, begins in terms if found]
        self._runs = [f" {' '.join(found)}{'' if begins else ' '}" for found, begins in self._terms]

    def __bool__(self) -> bool:
        return bool(self._terms)

    @property
    def query(self) -> str:
        """The FTS5 query: every word, anywhere in the text."""
        return " ".join(
            f'"{word}"' + (" *" if begins and word is found[-1] else "")
            for found, begins in self._terms
            for word in found
        )

    def are_in(self, text: str) -> bool:
        """Say whether a text holds every term."""
        line = f" {' '.join(words(text))} "
        return all(run in line for run in self._runs)


LEAST: Final = 3  # characters that one part of what is asked has at least
_HEAD: Final = "MSH"


class Parts:
    """Parts of a name or number, between spaces: each must be in what a message says of its patient."""

    def __init__(self, asked: str) -> None:
        self.typed = tuple(asked.casefold().split())
        self._parts = [part for part in (" ".join(words(term)) for term in self.typed) if part]

    def __bool__(self) -> bool:
        """True if one part has three characters, so that trigrams find it."""
        return any(len(part) >= LEAST for part in self._parts)

    @property
    def query(self) -> str:
        """The FTS5 query: every trigram of every part."""
        trigrams = (part[at : at + LEAST] for part in self._parts for at in range(len(part) - LEAST + 1))
        return " AND ".join(f'"{trigram}"' for trigram in dict.fromkeys(trigrams))

    def are_in(self, person: str) -> bool:
        """True if all parts are in what was said of a person."""
        return bool(self._parts) and all(part in person for part in self._parts)


def person_of(text: str) -> str:
    """Return the words that a message says of its patient: PID-5, the numbers of PID-3, the number of PV1-19.

    Each field, and each number, is a line of its own; empty where the text is no message, or has no PID.
    """
    segments = text.replace("\n", "\r").split("\r")
    head = segments[0]
    if not head.startswith(_HEAD) or len(head) < len("MSH|^~"):
        return ""
    field, component, repetition = head[3], head[4], head[5]
    fields = {name: _fields(segments, name, field) for name in ("PID", "PV1")}
    names = _at(fields["PID"], 5).split(repetition)
    numbers = [*_at(fields["PID"], 3).split(repetition), _at(fields["PV1"], 19)]
    said = [*names, *(number.partition(component)[0] for number in numbers)]
    return "\n".join(line for line in (" ".join(words(one)) for one in said) if line)


def _fields(segments: list[str], name: str, field: str) -> list[str]:
    return next((one.split(field) for one in segments if one.startswith(f"{name}{field}")), [])


def _at(fields: list[str], number: int) -> str:
    return fields[number] if number < len(fields) else ""
