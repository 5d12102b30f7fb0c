"""The template of a conditional create: what `if_none_exist` of a destination may say."""

import re
from difflib import get_close_matches
from typing import Final

from engine.config.wording import nearest

WORDS: Final = ("identifier", "demographics")
PLACEHOLDERS: Final = ("system", "value", "family", "given", "gender", "birthdate")
# Search parameters of Patient in R4 and STU3.
_PARAMETERS: Final = """
_id _lastUpdated _profile _security _source _tag active address address-city address-country address-postalcode
address-state address-use animal-breed animal-species birthdate death-date deceased email family gender
general-practitioner given identifier language link name organization phone phonetic telecom
"""
PARAMETERS: Final = frozenset(_PARAMETERS.split())
_PLACEHOLDER: Final = re.compile(r"\{([^{}]*)\}")
_PAIR: Final = re.compile(r"([A-Za-z_][\w-]*)(?::[\w-]+)?=[^=\s#\"<>\\^`{}]+", re.ASCII)
EXAMPLE: Final = "identifier={system}|{value}"


def check_criteria(text: str) -> str:
    """Return a template; ValueError where it is no word and no query that names one person."""
    if text in WORDS:
        return text
    near = get_close_matches(text, WORDS, n=1)
    if "=" not in text or text.startswith(("?", "Patient?")):
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ValueError(f"identifier, demographics, or a query alone such as {EXAMPLE}{hint}")
    named = _PLACEHOLDER.findall(text)
    for name in named:
        if name not in PLACEHOLDERS:
            raise ValueError(f"{{{name}}} is no placeholder; {nearest(name, PLACEHOLDERS, 'adt-engine help channels')}")
    for name, pair in _pairs(text):
        if not name:
            raise ValueError(f"{pair!r} is no part of a query; write name=value, joined by &, such as {EXAMPLE}")
        close = get_close_matches(name, PARAMETERS, n=1, cutoff=0.75)
        if name not in PARAMETERS and close:
            raise ValueError(f"Patient has no search parameter {name!r}; did you mean {close[0]}?")
    if "value" not in named and not {"family", "birthdate"} <= set(named):
        raise ValueError(f"it must name one person: use {{value}}, or {{family}} and {{birthdate}}, such as {EXAMPLE}")
    return text


def unknown_parameters(template: str) -> tuple[str, ...]:
    """Return the search parameters of a template that FHIR does not define for Patient."""
    return () if template in WORDS else tuple(name for name, _ in _pairs(template) if name not in PARAMETERS)


def _pairs(template: str) -> list[tuple[str, str]]:
    """Return the parts of a query with their names, empty where one has none."""
    pairs = [(pair, _PAIR.fullmatch(_PLACEHOLDER.sub("x", pair))) for pair in template.split("&")]
    return [(match[1] if match else "", pair) for pair, match in pairs]
