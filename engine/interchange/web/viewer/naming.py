"""Names of concepts as clinicians say them, and their codes on demand."""

import re
from collections.abc import Iterable, Mapping
from datetime import date, datetime
from functools import lru_cache
from hashlib import sha256
from typing import Final

from engine.fhir.json import Json
from engine.interchange.clinical.ccda.codes import system_by_uri
from engine.interchange.clinical.terms import LOINC, SNOMED

Concept = Mapping[str, Json]

# What a full name adds that the short one leaves out. Other specimens and methods stay: urine is not blood.
PROPERTY: Final = re.compile(r" \[[^\]]*\]")
USUAL_SPECIMEN: Final = re.compile(
    r" in (Serum or Plasma|Serum, Plasma or Blood|Blood)( by (Automated count|calculation))?$"
)
# The kind of a SNOMED CT concept in its fully specified name.
SEMANTIC_TAG: Final = re.compile(r" \((disorder|finding|procedure|situation|substance|event|product|regime/therapy)\)$")


def short_name(concept: Concept | None) -> str:
    """Return the name that the author wrote, else the code's display without what people leave out; '' for none."""
    held = concept or {}
    display = str(held.get("display") or held.get("code") or "")
    written = held.get("text")
    if written:
        return str(written)
    if held.get("codeSystem") == LOINC:
        return USUAL_SPECIMEN.sub("", PROPERTY.sub("", display)) or display
    return SEMANTIC_TAG.sub("", display) if held.get("codeSystem") == SNOMED else display


def short_names(concepts: Iterable[Concept] | None) -> str:
    """Return the names of several concepts, each once; '' for none."""
    return ", ".join(dict.fromkeys(filter(None, map(short_name, concepts or ()))))


def coded(concept: Concept | None) -> str:
    """Return the full name where it is not the short one, and the code with its system; '' for a text alone."""
    held = concept or {}
    display, code = str(held.get("display", "")), str(held.get("code", ""))
    full = display if display not in {short_name(held), code} else ""
    return " · ".join(filter(None, (full, _code(held) if code else "")))


def all_coded(concepts: Iterable[Concept] | None) -> str:
    """Return the full names and codes of several concepts; '' where all are texts."""
    return "; ".join(dict.fromkeys(filter(None, map(coded, concepts or ()))))


def key_of(concept: Concept | None) -> str:
    """Return a concept as a value of a filter; a text goes into no address, and is a digest of itself."""
    held = concept or {}
    named = short_name(held)
    return str(held.get("code") or (sha256(named.encode()).hexdigest()[:16] if named else ""))


def listed_name(patient: Mapping[str, Json]) -> str:
    """Return the name of a patient with the family name first, and no part left out; '' for none."""
    name, family = str(patient.get("name", "")), _family(patient)
    rest = " ".join(name.replace(family, " ", 1).split())
    return f"{family}, {rest}" if family and rest else name


def by_name(patient: Mapping[str, Json]) -> tuple[str, str, str]:
    """Return the key of a patient in a list: name, then birth date."""
    return _family(patient).casefold(), listed_name(patient).casefold(), str(patient.get("birthDate", ""))


def _family(patient: Mapping[str, Json]) -> str:
    """Return the family name that is part of the name as it is shown."""
    names = patient.get("names", ())
    families = (str(one.get("family", "")) for one in names) if isinstance(names, list) else ()
    return next((family for family in families if family and family in str(patient.get("name", ""))), "")


def _code(concept: Concept) -> str:
    uri = str(concept.get("codeSystem", ""))
    system = system_by_uri(uri)
    return f"{system.name if system else uri} {concept.get('code', '')}".strip()


# Whole units that the rules below would not give.
WHOLE: Final = {
    "1": "",
    "a": "years",
    "d": "days",
    "mo": "months",
    "wk": "weeks",
    "%{Hb}": "% of Hb",
    "%{saturation}": "%",
    "[degF]": "°F",
    "[drp]": "drops",
    "{#}": "",
}
# Parts of units that are written otherwise; each other part with a micro prefix `u` gets µ.
PARTS: Final = {
    "[APL'U]": "APL U",
    "[CFU]": "CFU",
    "[GPL'U]": "GPL U",
    "[HPF]": "HPF",
    "[IU]": "IU",
    "[LPF]": "LPF",
    "[MPL'U]": "MPL U",
    "[arb'U]": "arb. U",
    "[degF]": "°F",
    "[ft_i]": "ft",
    "[iU]": "IU",
    "[in_i]": "in",
    "[lb_av]": "lb",
    "[oz_av]": "oz",
    "[pH]": "pH",
    "[ppm]": "ppm",
    "[psi]": "psi",
    "Cel": "°C",
    "cm[H2O]": "cmH₂O",
    "deg": "°",
    "dl": "dL",
    "eq": "Eq",
    "fl": "fL",
    "l": "L",
    "m[Hg]": "mHg",
    "m[IU]": "mIU",
    "m[iU]": "mIU",
    "k[IU]": "kIU",
    "k[iU]": "kIU",
    "meq": "mEq",
    "ml": "mL",
    "mm[Hg]": "mmHg",
    "mosm": "mOsm",
    "osm": "Osm",
    "u[IU]": "µIU",
    "u[iU]": "µIU",
    "ueq": "µEq",
    "ul": "µL",
}
MICRO: Final = re.compile(r"u(g|kat|L|m|mol|s|U|IU|V|Eq)")
# A part is an annotation, or a unit and its annotation; a point between digits is a decimal point.
SEPARATOR: Final = re.compile(r"(/|(?<!\d)\.|\.(?!\d))(?![^{\[]*[}\]])")
ANNOTATED: Final = re.compile(r"([^{]*)\{([^}]*)\}")
POWER: Final = re.compile(r"10[*^](-?\d+)")
EXPONENT: Final = re.compile(r"(|[\d.]+ ?)([cdkm]?m|s|min|h)(-?\d)")
RAISED: Final = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@lru_cache(1000)
def readable(unit: str) -> str:
    """Return a unit as people write it; a unit that is text already, with a blank in it, is returned as it is."""
    if unit in WHOLE:
        return WHOLE[unit]
    if any(map(str.isspace, unit)):
        return unit
    parts = SEPARATOR.split(unit.replace("(", "").replace(")", ""))
    written = "".join(" " if part == "." else part if part == "/" else _part(part) for part in parts)
    return f"×{written}" if POWER.match(unit) else written


def _part(part: str) -> str:
    annotated = ANNOTATED.fullmatch(part)
    if annotated is None:
        return _atom(part)
    base, note = annotated[1], annotated[2].replace("_", " ")
    raised = EXPONENT.fullmatch(note)
    note = _raise(raised) if raised else note
    return f"{_atom(base)} {note}" if base not in {"", "1"} else note


def _atom(part: str) -> str:
    if part in PARTS:
        return PARTS[part]
    if power := POWER.fullmatch(part):
        return f"10{power[1].translate(RAISED)}"
    if MICRO.fullmatch(part):
        return f"µ{part[1:]}"
    if exponent := EXPONENT.fullmatch(part):
        return _raise(exponent)
    return part.replace("[", "").replace("]", "").replace("'", " ") if "[" in part else part


def _raise(found: re.Match[str]) -> str:
    return f"{found[1]}{found[2]}{found[3].translate(RAISED)}"


DAY: Final = 10
MINUTE: Final = 16


def moment(text: str) -> str:
    """Return a FHIR date or dateTime to the minute, `2025-06-30 14:05`, with its own offset."""
    if len(text) <= DAY:
        return text
    zone = text[19:].lstrip("0123456789.")
    minute = f"{text[:DAY]} {text[DAY + 1 : MINUTE]}"
    return f"{minute} UTC" if zone in {"Z", "+00:00"} else f"{minute} {zone}".strip()


# Codes that are more than their words.
WORDS: Final = {"onleave": "on leave", "not-done": "not given"}


def spoken(code: str) -> str:
    """Return a FHIR code as words: `entered-in-error` is `entered in error`."""
    return WORDS.get(str(code), str(code or "").replace("-", " ").replace("_", " "))


def age(born: str, at: datetime) -> str:
    """Return the age in years; '' if the birth date is not known to the day."""
    try:
        day = date.fromisoformat(born)
    except ValueError:
        return ""
    years = at.year - day.year - ((at.month, at.day) < (day.month, day.day))
    return f"{years} years" if years > 1 else f"{max(0, (at.date() - day).days // 30)} months"
