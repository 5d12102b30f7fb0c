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
