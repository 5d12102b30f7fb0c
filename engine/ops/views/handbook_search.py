"""A search of the help pages: sections that hold all words, the best first."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from typing import Final

from engine.ops.views.handbook import PAGES, HelpPage
from engine.ops.views.reasons import REASONS, SYMPTOMS, Reason, Symptom, reason_of

EXCERPT_CHARACTERS: Final = 110
_BLOCK: Final = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_HEADING: Final = re.compile(r"^#+ (.+)$", re.MULTILINE)
_LINK: Final = re.compile(r"!?\[([^\]]*)\]\([^)\s]+\)")
_TOKEN: Final = re.compile(r"\w+")
_MARKUP: Final = re.compile(r"`|\*\*")
# Occurrences beyond this one say nothing more about a section.
_COUNTED: Final = 5


@dataclass(frozen=True, slots=True)
class PageSection:
    """One heading of a page with the text below it, up to the next heading; `names`, `words`, `keys` are folded.

    `names`: title of the page and heading; `keys`: the first cells of its tables (reasons, settings, metrics).
    """

    page: HelpPage
    heading: str
    text: str
    names: str
    words: str
    keys: frozenset[str]


@dataclass(frozen=True, slots=True)
class Hit:
    """A section that holds all words, with the line that holds most of them, cut to `EXCERPT_CHARACTERS`."""

    page: str
    heading: str
    excerpt: str


def search(words: Sequence[str], *, partial: bool = False) -> list[Hit]:
    """Return the sections in which all words occur, singular or plural, the best first.

    A word such as `PID-3` or `ambiguous-identity` occurs where its parts follow each other;
    a code of a family (`http-412`) occurs where its family does (`http-4*`). `partial`: somebody may still be typing
    the last word, so that its beginning is enough.
    """
    hits = _hits(words) or (_hits(words, partial=True) if partial else [])
    if hits or len(words) != 1:
        return hits
    family = reason_of(words[0])
    return _hits([family.code]) if family.kinds else []


def terms_of(words: str, *, partial: bool = False) -> list[str]:
    """Return the words of a search as `folded` writes them; of a `partial` one the last is a beginning."""
    terms = [term for term in map(folded, words.split()) if term.strip()]
    return [*terms[:-1], terms[-1].rstrip()] if terms and partial else terms


def _hits(words: Sequence[str], *, partial: bool = False) -> list[Hit]:
    terms = terms_of(" ".join(words), partial=partial)
    if not terms:
        return []
    found = [(section, _score(section, terms)) for page in PAGES.values() for section in _sections(page)]
    ranked = sorted((one for one in found if one[1]), key=lambda one: one[1], reverse=True)
    return [Hit(one.page.name, one.heading, _excerpt(one, terms)) for one, _ in ranked]


@cache
def _sections(page: HelpPage) -> tuple[PageSection, ...]:
    text = page.text()
    # A comment of a shell is no heading.
    prose = _BLOCK.sub(lambda block: block[0].replace("#", " "), text)
    starts = list(_HEADING.finditer(prose))
    ends = [*(start.start() for start in starts[1:]), len(text)]
    return tuple(
        _section(page, _plain(start[1]), text[start.end() : end]) for start, end in zip(starts, ends, strict=True)
    )


def _section(page: HelpPage, heading: str, text: str) -> PageSection:
    keys = (folded(_plain(line.split("|", 2)[1])) for line in text.splitlines() if line.startswith("| "))
    return PageSection(page, heading, text, folded(f"{page.title} {heading}"), folded(text), frozenset(keys))


def _score(section: PageSection, terms: Sequence[str]) -> tuple[int, ...]:
    """Return how well a section answers, () where a word is not in it: greater is better."""
    if not all(term in section.names or term in section.words for term in terms):
        return ()
    phrase = _phrase(terms)
    named = phrase == folded(section.heading) or phrase in section.keys
    in_names = sum(term in section.names for term in terms)
    times = section.words.count(phrase)
    return named, phrase in section.names, in_names, times > 0, min(times, _COUNTED)


def _phrase(terms: Sequence[str]) -> str:
    return f" {' '.join(' '.join(terms).split())} "


def _excerpt(section: PageSection, terms: Sequence[str]) -> str:
    lines = [_plain(line) for line in section.text.splitlines() if line.strip() and not line.startswith("```")]
    best = max(lines, key=lambda line: _match(line, terms), default="")
    if len(best) <= EXCERPT_CHARACTERS:
        return best
    start = _first(best, terms)
    start = best.rfind(" ", 0, max(0, start - EXCERPT_CHARACTERS // 3)) + 1
    cut = best[start : start + EXCERPT_CHARACTERS].rsplit(" ", 1)[0]
    return f"{'… ' if start else ''}{cut}{' …' if start + len(cut) < len(best) else ''}"


def _match(line: str, terms: Sequence[str]) -> tuple[bool, bool, int]:
    """Return how well a line shows the terms: it begins with all of them in order, has them in order, has some."""
    words, phrase = folded(line), _phrase(terms)
    return words.startswith(phrase), phrase in words, sum(term in words for term in terms)


def _first(line: str, terms: Sequence[str]) -> int:
    """Return where the first word of a line begins that is one of the terms', 0 where none is."""
    parts = {part for term in terms for part in term.split()}
    before = takewhile(lambda token: _stem(token[0]) not in parts, _TOKEN.finditer(line))
    return max((token.end() for token in before), default=0)


def _plain(line: str) -> str:
    """Return a line without the marks of Markdown; the cells of a table stay apart by two blanks."""
    text = _MARKUP.sub("", _LINK.sub(r"\1", line)).strip("#>|- ")
    return re.sub(r"\s*\|\s*", "  ", text)


def folded(text: str) -> str:
    """Return the words of a text in lower case and singular, each between blanks."""
    return f" {' '.join(_stem(word) for word in _TOKEN.findall(text))} "


def _stem(word: str) -> str:
    lower = word.lower()
    if lower.endswith("ies") and len(lower) > 4:
        return f"{lower[:-3]}y"
    # "zeros" and "zeroes", "patches" and "patch" meet; "address" and "status" stay.
    if lower.endswith(("oes", "ches", "shes", "xes", "sses")):
        return lower[:-2]
    return lower[:-1] if len(lower) > 3 and lower.endswith("s") and not lower.endswith(("ss", "us", "is")) else lower


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
