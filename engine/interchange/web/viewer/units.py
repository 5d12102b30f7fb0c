"""Units of measure as people write them: `mm[Hg]` of UCUM is mmHg, `umol/L` µmol/L, `{beats}/min` beats/min."""

import re
from functools import lru_cache
from typing import Final

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
