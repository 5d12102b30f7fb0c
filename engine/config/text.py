"""Kinds of text in authored files: words, lines, addresses; each refusal says what would do."""

import re
from difflib import get_close_matches
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from pydantic import AfterValidator, ValidationInfo
from pydantic_core import PydanticCustomError

_LABEL: Final = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)", re.ASCII)
_PORT: Final = 65_535
# RFC 3986 without query and fragment: what follows is written behind it.
_URL: Final = re.compile(
    r"(?:https?)://(\[[0-9A-Fa-f:.]+\]|[^\s/:?#@\[\]]+)(?::(\d{1,5}))?(?:/[\w.~%!$&'()*+,;=:@/-]*)?", re.ASCII
)
_USER: Final = re.compile(r"\w+://[^/?#]*@")
_ID: Final = re.compile(r"[A-Za-z0-9.-]{1,64}", re.ASCII)
# What a scheme that is nearly one of them was meant to be.
_SCHEMES: Final = ("http", "https")
# Of a path in an authored file: what is said where it leads nowhere.
BESIDE: Final = "seen from the folder of the file that names it"
URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[!-~]{1,500}")


def is_host(text: str) -> bool:
    """Say whether a text is an IP address, or a name that could be a machine's."""
    try:
        ip_address(text)
    except ValueError:
        labels = text.removesuffix(".").split(".")
        return len(text) < 254 and not labels[-1].isdigit() and all(map(_LABEL.fullmatch, labels))
    return True


def shaped(pattern: str, remedy: str) -> AfterValidator:
    """Return the check of a text by a pattern; a refusal says `remedy`, what would do."""

    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(remedy)
        return text

    return AfterValidator(check)


def _name(text: str) -> str:
    if not (0 < len(text) <= 64 and text.isascii() and text.replace("-", "").replace("_", "x").isalnum()):
        raise ValueError("a name of 1 to 64 letters, digits, - and _")
    return text


def _word(text: str) -> str:
    if not text or not text.isprintable() or text != text.strip():
        raise ValueError("a word or a text, without blanks around it")
    return text


def _line(text: str) -> str:
    if not text.isprintable():
        raise ValueError("one line of text, without control characters")
    return text


def _beside(text: str, info: ValidationInfo) -> str:
    """Return a path as seen from the folder in the context; as it is where it is absolute, or without context."""
    return str(info.context / text) if text and isinstance(info.context, Path) else text


def _host(text: str) -> str:
    if not is_host(text):
        raise ValueError("an address such as 127.0.0.1 or ::1, or a host's name")
    return text


def _resource_id(text: str) -> str:
    if not _ID.fullmatch(text):
        raise ValueError("the id of a resource: 1 to 64 letters, digits, - and .")
    return text


def _uri(text: str) -> str:
    if not URI.fullmatch(text):
        raise ValueError("an absolute URI without blanks, such as https://mrn.hospital.example or urn:oid:1.2.3")
    scheme, _, rest = text.partition(":")
    near = get_close_matches(scheme.lower(), _SCHEMES, n=1, cutoff=0.7)
    if near and (scheme.lower() not in _SCHEMES or not rest.startswith("//")):
        raise ValueError(f"found {scheme}:{rest[:2]}; did you mean {near[0]}://?")
    return text


def _uri_or_empty(text: str) -> str:
    return _uri(text) if text else text


def _url(text: str) -> str:
    if _USER.match(text):
        raise PydanticCustomError("literal_secret", "a URL holds no user name or password; use auth")
    match = _URL.fullmatch(text)
    if match is None or not is_host(match[1].strip("[]")) or int(match[2] or 0) > _PORT:
        raise ValueError("write a whole URL without a query, such as https://fhir.example/R4")
    return text


def _url_or_empty(text: str) -> str:
    return _url(text) if text else text


# Of channels, destinations and listeners: names stand in metrics, URLs and commands.
Name = Annotated[str, AfterValidator(_name)]
Word = Annotated[str, AfterValidator(_word)]
Line = Annotated[str, AfterValidator(_line)]
# Of files and folders: a relative one starts at the file that names it.
FilePath = Annotated[str, AfterValidator(_word), AfterValidator(_beside)]
FilePathOrEmpty = Annotated[str, AfterValidator(_line), AfterValidator(_beside)]
Host = Annotated[str, AfterValidator(_host)]
ResourceId = Annotated[str, AfterValidator(_resource_id)]
Uri = Annotated[str, AfterValidator(_uri)]
UriOrEmpty = Annotated[str, AfterValidator(_uri_or_empty)]
Url = Annotated[str, AfterValidator(_url)]
UrlOrEmpty = Annotated[str, AfterValidator(_url_or_empty)]


# Of the number of an entry.
MOST_DIGITS: Final = 18


def own_control_id(entry: int) -> str:
    """Return MSH-10 of the engine's own (`control_id: own`) for an entry: the same each time that it is sent."""
    return f"ADT{entry}"


def entry_of_own(control_id: str) -> int | None:
    """Return the entry whose own MSH-10 this is; None where it is none of ours."""
    number = control_id[len(own_control_id(0)) - 1 :]
    is_number = number.isascii() and number.isdigit() and len(number) <= MOST_DIGITS
    return int(number) if is_number and control_id == own_control_id(int(number)) else None


def _did_you_mean_zone(word: str) -> str:
    """Return advice on a zone by likeness, of its whole name or of its place alone (`New York`), whatever the case."""
    zones = sorted(available_timezones())
    known = {zone.rpartition("/")[2].casefold(): zone for zone in zones if "/" in zone and not zone.startswith("Etc/")}
    known |= {zone.casefold(): zone for zone in zones}
    near = get_close_matches(word.casefold().replace(" ", "_"), known, n=1, cutoff=0.7)
    return f"; did you mean {known[near[0]]}?" if near else ""


def zone_name(name: str) -> str:
    """Return the name of a time zone; ValueError where it is none."""
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        hint = _did_you_mean_zone(name) or "; use a name such as America/New_York"
        raise ValueError(f"{name!r} is no time zone{hint}") from error
    return name
