"""Media types and preferences: Accept, `_format`, Content-Type and Prefer."""

from functools import lru_cache
from typing import Final

from engine.interchange.core.exchange import Prefer, Return

READABLE: Final = frozenset({"application/fhir+json", "application/json", "application/*", "*/*"})
# Media ranges that accept a document in XML; FHIR JSON counts too.
DOCUMENT: Final = READABLE | {"application/xml", "text/xml", "text/*"}
FHIR_XML: Final = "application/fhir+xml"
# Media types of a resource, a search form, a patch; error texts name the first of each.
WRITABLE: Final = ("application/fhir+json", "application/json")
FORM: Final = ("application/x-www-form-urlencoded",)
PATCH: Final = ("application/json-patch+json",)
ENCODINGS: Final = {"": "", "identity": "", "gzip": "gzip", "x-gzip": "gzip"}
# An unescaped plus in a query means a blank.
FORMATS: Final = frozenset({"json", "application/json", "application/fhir+json", "application/fhir json"})


@lru_cache(maxsize=256)
def acceptable(accept: str, *, raw: bool = False, document: bool = False) -> bool:
    """Say whether an Accept header, '' for none, accepts JSON, a `document`, or `raw` content of any type."""
    if not accept.strip():
        return True
    if raw:
        return any(part.partition(";")[0].strip().lower() != FHIR_XML for part in accept.split(","))
    kinds = [part.partition(";") for part in accept.lower().split(",")]
    readable = DOCUMENT if document else READABLE
    return any(kind.strip() in readable and "q=0" not in _plain(options) for kind, _, options in kinds)


@lru_cache(maxsize=256)
def writable(content_type: str, kinds: tuple[str, ...]) -> bool:
    """Say whether a Content-Type is one of the accepted kinds."""
    return content_type.partition(";")[0].strip().lower() in kinds


def encoding(content_encoding: str) -> str:
    """Return the compression of a Content-Encoding: '' for none, '?' if it is not supported."""
    return ENCODINGS.get(content_encoding.strip().lower(), "?")


@lru_cache(maxsize=256)
def prefer(header: str) -> Prefer:
    """Return the preferences of one or several Prefer headers joined by commas; unknown ones are ignored."""
    returns, lenient = Return.REPRESENTATION, False
    names: set[str] = set()
    for part in header.replace(";", ",").split(","):
        name, _, value = part.strip().partition("=")
        names.add(name.lower())
        if name.lower() == "return":
            wanted = value.strip('" ')
            returns = next((one for one in Return if one.lower() == wanted.lower()), returns)
        elif name.lower() == "handling":
            lenient = value.strip('" ').lower() == "lenient"
    return Prefer(returns, "create-always" in names, lenient, "respond-async" in names)


def _plain(options: str) -> set[str]:
    return {option.strip().removesuffix(".0") for option in options.split(";")}
