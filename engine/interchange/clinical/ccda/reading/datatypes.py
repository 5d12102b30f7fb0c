"""Data types of CDA as those of FHIR: codes, quantities, identifiers, names, addresses, times and intervals."""

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Final

from engine.fhir.json import JsonObject
from engine.fhir.period import is_reversed
from engine.interchange.clinical.ccda.codes import BY_OID, OID, system_by_oid
from engine.interchange.clinical.ccda.reading.element import Element, every, first, said

# YYYY[MM[DD[HH[MM[SS[.S]]]]]][+ZZZZ], also with the signs of ISO 8601 between, which some systems write.
POINT: Final = re.compile(
    r"(\d{4})(?:-?(\d\d)(?:-?(\d\d)(?:[T ]?(\d\d)(?::?(\d\d)(?::?(\d\d)(\.\d{1,9})?)?)?)?)?)?"
    r"\s?(?:(Z)|([+-]\d\d):?(\d\d)|([+-]\d\d))?",
    re.ASCII,
)
FURTHEST: Final = 14
SECONDS: Final = {"s": 1, "min": 60, "h": 3600, "d": 86_400, "wk": 604_800}


def offset_of(text: str) -> str:
    """Return the offset that a point in time is written with (`-05:00`); '' for none."""
    found = POINT.fullmatch(text)
    return _offset(found) if found else ""


def moment(text: str, offset: str) -> str:
    """Return a point in time as a FHIR dateTime, '' for none; `offset` is for one that is written without.

    FHIR has no time of day without an offset: without one in either place only the day is kept. Midnight without an
    offset of its own is a padded day.
    """
    found = POINT.fullmatch(text)
    if found is None:
        return ""
    year, month, day, hour, minute, second, fraction = found.groups()[:7]
    date = "-".join(part for part in (year, month, day) if part)
    minute, second = minute or "00", second or "00"
    own = _offset(found)
    padded = not own and (hour, minute, second) == ("00", "00", "00")
    with_time = f"{date}T{hour}:{minute}:{second}{fraction or ''}{own or offset}" if hour and day else ""
    if with_time and (own or offset) and not padded and _exists(with_time):
        return with_time
    return date if _exists("-".join([date, "01", "01"][: 1 if day else 2 if month else 3])) else ""


def day(text: str) -> str:
    """Return a point in time as a FHIR date, as precise as it is written; '' for none."""
    return moment(text, "").partition("T")[0]


def instant(text: str) -> str:
    """Return a point in time as a FHIR instant; what the document leaves open is its begin, and UTC. '' for none."""
    found = moment(text, "+00:00")
    if not found or "T" in found:
        return found
    return "-".join([found, "01", "01"][: {4: 3, 7: 2, 10: 1}[len(found)]]) + "T00:00:00+00:00"


def interval(element: Element | None, offset: str) -> tuple[str, str]:
    """Return the ends of an interval, or a point in time twice; '' for an end that is not given."""
    if element is None:
        return "", ""
    point = moment(said(element, "value"), offset) or moment(said(element, "value", "center"), offset)
    if point:
        return point, point
    low, high = (moment(said(element, "value", end), offset) for end in ("low", "high"))
    if low and not high:
        high = _after(low, first(element, "width"))
    return (low, "") if is_reversed({"start": low, "end": high}) else (low, high)


def timed(name: str, element: Element | None, offset: str) -> JsonObject:
    """Return the element of a choice of dateTime and Period: `effectiveDateTime` or `effectivePeriod`; {} for none."""
    low, high = interval(element, offset)
    if low and low == high:
        return {f"{name}DateTime": low}
    return {f"{name}Period": period(low, high)} if low or high else {}


def period(low: str, high: str) -> JsonObject:
    """Return a Period of the ends that are given."""
    return {name: end for name, end in (("start", low), ("end", high)) if end}


def _offset(found: re.Match[str]) -> str:
    """Return the offset of a point in time; '' for none, and for one that does not exist."""
    zulu, hours, minutes, whole = found.groups()[7:]
    if zulu:
        return "+00:00"
    hours, minutes = hours or whole, minutes or "00"
    if not hours or int(hours[1:]) >= FURTHEST or int(minutes) > 59:
        return ""
    return f"{hours}:{minutes}".replace("-00:00", "+00:00")


def _exists(text: str) -> bool:
    try:
        found = datetime.fromisoformat(text)
        if found.tzinfo:
            found.astimezone(UTC)
    except (ValueError, OverflowError):
        return False
    return True


def _after(low: str, width: Element | None) -> str:
    """Return the end of an interval given by its width; '' for a width that cannot be read."""
    seconds = SECONDS.get(said(width, "unit"))
    if width is None or seconds is None:
        return ""
    try:
        end = datetime.fromisoformat(low) + timedelta(seconds=float(Decimal(said(width, "value")) * seconds))
    except (ValueError, OverflowError, InvalidOperation):
        return ""
    return end.isoformat() if "T" in low else end.date().isoformat()


URI: Final = "urn:ietf:rfc:3986"
# Null flavors that documents have for codes of whichever system.
NULL_CODES: Final = frozenset({"UNK", "NI", "ASKU", "NASK", "NAV", "OTH", "UNKNOWN"})
NULL_FLAVOR: Final = "2.16.840.1.113883.5.1008"
UCUM: Final = "http://unitsofmeasure.org"
# What the unit of a quantity may be to go as a code.
UNIT: Final = re.compile(r"[!-~]{1,60}")
UUID: Final = re.compile(r"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
NUMBER: Final = re.compile(r"[+-]?\d{1,30}(\.\d{1,30})?([eE][+-]?\d{1,3})?|[+-]?\.\d{1,30}", re.ASCII)
ADDRESS: Final = re.compile(r"(https?|urn):[!-~]{1,300}")
# The most characters of one text; documents have whole reports there.
LONGEST: Final = 20_000
DIGITS: Final = 15
# What programs write for a missing part of a name; a person may be called Null.
NO_NAME: Final = frozenset({"", "null"})
USES: Final = {
    "H": "home",
    "HP": "home",
    "HV": "home",
    "WP": "work",
    "DIR": "work",
    "PUB": "work",
    "TMP": "temp",
    "BAD": "old",
    "OLD": "old",
    "MC": "mobile",
}
ADDRESS_USES: Final = frozenset({"home", "work", "temp", "old"})
NAME_USES: Final = {"L": "official", "C": "official", "P": "nickname", "A": "nickname", "ASGN": "temp"}
SCHEMES: Final = {"tel": "phone", "fax": "fax", "x-text-fax": "fax", "mailto": "email", "http": "url", "https": "url"}


def plain(text: str | None) -> str:
    """Return a text on one line, at most 20,000 characters of it."""
    return " ".join((text or "")[:LONGEST].split())


def text_of(element: Element | None) -> str:
    """Return all text in an element, on one line."""
    return "" if element is None else plain(" ".join(str(part) for part in element.itertext()))


def number(text: str) -> int | Decimal | None:
    """Return a number with the digits that it is written with; None for anything else, or beyond a double."""
    if not NUMBER.fullmatch(text):
        return None
    text = text.lstrip("+")
    if text.lstrip("-").isdecimal() and len(text) <= DIGITS:
        return int(text)
    try:
        value = Decimal(text)
        inside = bool(float(value)) == bool(value) and abs(float(value)) != float("inf")
    except (InvalidOperation, OverflowError):
        return None
    return value if inside else None


def whole(text: str, least: int = 0) -> int | None:
    """Return a whole number of 32 bits that is not below the least; None for anything else."""
    value = number(text)
    return value if isinstance(value, int) and least <= value < 2**31 else None


def system_of(root: str, name: str = "") -> str:
    """Return the address of a system by its OID or UUID; '' for what is neither; `name` as the document shows it."""
    if OID.fullmatch(root):
        return system_by_oid(root, name).uri
    if UUID.fullmatch(root):
        return f"urn:uuid:{root.lower()}"
    return root if ADDRESS.fullmatch(root) else ""


def coding(element: Element) -> JsonObject:
    """Return the Coding of an element that has a code; {} for one that has none, or a null flavor for a code."""
    code = plain(said(element))
    if not code or code.upper() in NULL_CODES or said(element, "codeSystem") == NULL_FLAVOR:
        return {}
    system = system_of(said(element, "codeSystem"), said(element, "codeSystemName"))
    return {"system": system, "code": code, "display": plain(said(element, "displayName"))}


def codings(element: Element | None) -> list[JsonObject]:
    """Return the Codings of a coded element: its own, then those of its translations; none twice."""
    if element is None:
        return []
    found: dict[tuple[str, str], JsonObject] = {}
    for one in (coding(part) for part in (element, *every(element, "translation"))):
        if one:
            found.setdefault((one["system"], one["code"]), one)
    return list(found.values())


def identifier(element: Element) -> JsonObject:
    """Return the Identifier of an instance identifier (II); {} for one that names nothing, as a system alone."""
    root, extension = said(element, "root"), plain(said(element, "extension"))
    system = system_of(root, said(element, "assigningAuthorityName"))
    if extension or not root:
        return {"system": system, "value": extension} if extension else {}
    if root in BY_OID:
        return {}
    urn = f"urn:oid:{root}" if OID.fullmatch(root) else system
    return {"system": URI, "value": urn} if urn else {"value": plain(root)}


def identifiers(element: Element | None) -> list[JsonObject]:
    """Return the Identifiers that an element has, none twice."""
    found = [one for one in map(identifier, every(element, "id")) if one]
    return [one for place, one in enumerate(found) if one not in found[:place]] if len(found) < 100 else found[:100]


def quantity(element: Element | None) -> JsonObject:
    """Return a Quantity (PQ, REAL, INT); {} for one without a value.

    The text of a translation holds a unit that UCUM does not have.
    """
    other = first(element, "translation")
    value = number(said(element, "value"))
    unit = plain(said(element, "unit"))
    if value is None:
        value, unit = number(said(other, "value")), text_of(first(other, "originalText"))
        return {"value": value, "unit": unit} if value is not None else {}
    if unit in {"", "1"}:
        return {"value": value}
    coded = {"system": UCUM, "code": unit} if UNIT.fullmatch(unit) else {}
    return {"value": value, "unit": unit, **coded}


def bounds(element: Element | None) -> tuple[JsonObject, JsonObject]:
    """Return both ends of an interval of quantities (IVL_PQ), {} for one that is not given."""
    return quantity(first(element, "low")), quantity(first(element, "high"))


def compared(element: Element) -> JsonObject:
    """Return the Quantity with its comparator of an interval with one end; {} for another."""
    low, high = bounds(element)
    if bool(low) == bool(high):
        return {}
    end = first(element, "low" if low else "high")
    sign = ">" if low else "<"
    return {**(low or high), "comparator": sign if said(end, "inclusive") == "false" else f"{sign}="}


def human_name(element: Element | None) -> JsonObject:
    """Return a HumanName; {} for none. One that is only text has `text`."""
    if element is None:
        return {}
    parts = {name: [text_of(one) for one in every(element, name)] for name in ("given", "prefix", "suffix", "family")}
    parts = {name: [text for text in texts if text not in NO_NAME] for name, texts in parts.items()}
    family = " ".join(parts.pop("family"))
    written = any(parts.values()) or family
    use = next((NAME_USES[one] for one in said(element, "use").split() if one in NAME_USES), "")
    return {"use": use, "family": family, **parts} if written else {"text": text_of(element)}


def address(element: Element) -> JsonObject:
    """Return an Address; {} for one that says nothing."""
    low, high = interval(first(element, "useablePeriod"), "")
    found = {
        "line": [text for one in every(element, "streetAddressLine") if (text := text_of(one))],
        "city": text_of(first(element, "city")),
        "district": text_of(first(element, "county")),
        "state": text_of(first(element, "state")),
        "postalCode": text_of(first(element, "postalCode")),
        "country": text_of(first(element, "country")),
    }
    use = _use(element)
    return {"use": use if use in ADDRESS_USES else "", **found, "period": period(low, high)} if found else {}


def telecom(element: Element) -> JsonObject:
    """Return a ContactPoint; {} for one without a value. A number without `tel:` is a telephone's."""
    scheme, sign, rest = plain(said(element, "value")).partition(":")
    value = rest if sign else scheme
    system = SCHEMES.get(scheme.lower(), "other") if sign else "phone"
    if system == "url":
        value = f"{scheme}:{rest}"
    value = value.strip()
    return {"system": system, "value": value, "use": _use(element)} if value else {}


def contact(element: Element | None) -> JsonObject:
    """Return the `address` and `telecom` of a person or organization."""
    return {
        "address": [one for one in map(address, every(element, "addr")) if one],
        "telecom": [one for one in map(telecom, every(element, "telecom")) if one],
    }


def _use(element: Element) -> str:
    return next((USES[one] for one in said(element, "use").split() if one in USES), "")
