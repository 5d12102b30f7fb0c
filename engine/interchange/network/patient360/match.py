"""Matches the patient of a document with the stored patient, by name, birth date and sex.

The rule rejects a document rather than put another person's facts into a chart:

- Case, accents, punctuation and suffixes (Jr., III) do not count. Any name of the record may match.
- Family: the same words, in any order (`Quintero Lopez`, `Lopez-Quintero`).
- Given: the first word is the same. The further words of the side with fewer must all be on the other side; an initial
  matches a word (`Marisol I.` is `Marisol Ines`, and is not `Marisol Ana`, who may be her twin).
- Birth date: the same day. A year or a month alone is no match.
- Sex: the same code. If it is unknown on a side, both must have an identifier in common instead.
"""

import re
from collections.abc import Iterable
from typing import Final

from engine.fhir.json import JsonObject
from engine.interchange.clinical.facts import DocumentIdentity
from engine.interchange.clinical.terms import canonical_system
from engine.interchange.store.search.text import fold

WORD: Final = re.compile(r"[^\W_]+")
JOINED: Final = re.compile(r"['’`.]")
SUFFIXES: Final = frozenset({"jr", "sr", "junior", "senior", "ii", "iii", "iv", "2nd", "3rd", "4th"})
DAY: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
UNKNOWN: Final = frozenset({"", "unknown"})


def matches(identity: DocumentIdentity, patient: JsonObject) -> bool:
    """True if the identity in a document is the patient's (R4)."""
    born = identity.birth_date
    if DAY.fullmatch(born) is None or born != patient.get("birthDate"):
        return False
    if not any(_named(identity, name) for name in patient.get("name", ())):
        return False
    sexes = {identity.gender, patient.get("gender", "")}
    return _share_a_number(identity, patient) if sexes & UNKNOWN else len(sexes) == 1


def _named(identity: DocumentIdentity, name: JsonObject) -> bool:
    families = sorted(_words((identity.family,))), sorted(_words((name.get("family", ""),)))
    if not families[0] or families[0] != families[1]:
        return False
    fewer, more = sorted((_words(identity.given), _words(name.get("given", ()))), key=len)
    return bool(fewer) and fewer[0] == more[0] and _within(fewer[1:], more[1:])


def _within(fewer: list[str], more: list[str]) -> bool:
    """True if each word of `fewer` matches another word of `more`; an initial matches a word."""
    left = list(more)
    for word in sorted(fewer, key=len, reverse=True):
        match = next((one for one in left if one == word), None) or next(
            (one for one in left if 1 in {len(one), len(word)} and one[0] == word[0]), None
        )
        if match is None:
            return False
        left.remove(match)
    return True


def _words(texts: Iterable[str]) -> list[str]:
    """Return the words of a name for comparison, without suffixes unless the name has nothing else."""
    words = [word for text in texts for word in WORD.findall(JOINED.sub("", fold(text)))]
    return [word for word in words if word not in SUFFIXES] or words


def _share_a_number(identity: DocumentIdentity, patient: JsonObject) -> bool:
    own = {
        (canonical_system(identifier["system"]), identifier["value"])
        for identifier in patient.get("identifier", ())
        if identifier.get("system") and identifier.get("value")
    }
    return any((canonical_system(system), value) in own for system, value in identity.identifiers)
