"""A search of the table of reasons, by word, code and symptom."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from engine.ops.views.handbook_search import folded, terms_of
from engine.ops.views.reasons import REASONS, SYMPTOMS, Reason, Symptom, reason_of


@dataclass(frozen=True, slots=True)
class FoundReasons:
    """The symptoms that hold all words, and the reasons: codes first, then those that a symptom names, then texts."""

    symptoms: tuple[Symptom, ...]
    reasons: tuple[Reason, ...]


def find_reasons(words: str) -> FoundReasons:
    """Return what holds all words; everything where there are none.

    A code is found whole, with what follows it (`unmapped-code PID-16`) or by its family (`http-412`). The last word
    may be the beginning of one, as somebody may still be typing it.
    """
    terms = terms_of(words, partial=True)
    if not terms:
        return FoundReasons(SYMPTOMS, tuple(REASONS.values()))
    symptoms = tuple(one for one in SYMPTOMS if _holds(folded(one.text), terms))
    return FoundReasons(symptoms, tuple(dict.fromkeys(_ranked(words, terms, symptoms))))


def _ranked(words: str, terms: list[str], symptoms: tuple[Symptom, ...]) -> Iterator[Reason]:
    exact = reason_of(words.strip().lower())
    if exact.kinds:
        yield exact
    yield from (one for code, one in REASONS.items() if _holds(folded(code), terms))
    yield from (REASONS[code] for symptom in symptoms for code in symptom.codes)
    yield from (one for one in REASONS.values() if _holds(_text(one), terms))


def _holds(text: str, terms: list[str]) -> bool:
    return all(term in text for term in terms)


@cache
def _text(reason: Reason) -> str:
    return folded(f"{reason.code} {' '.join(reason.kinds)} {reason.meaning} {reason.next_step}")
