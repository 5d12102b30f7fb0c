"""FHIR datatypes as those of HL7 v2: names, addresses, telecoms, codes, identifiers and numbers of orders."""

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Final

from engine.fhir.json import Json, JsonObject
from engine.hl7.delimiters import STANDARD
from engine.hl7.escape import escape
from engine.hl7.leaf import NULL_TEXT

# What would end a block or a segment elsewhere, or vanish on its way; line ends the escape knows by itself.
CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_MOMENT: Final = re.compile(
    r"(\d{4})(?:-(\d\d)(?:-(\d\d)(?:T(\d\d):(\d\d)(?::(\d\d)(\.\d{1,4})?\d*)?(Z|[+-]\d\d:\d\d)?)?)?)?"
)


class UnwritableError(ValueError):
    """An order cannot be written as a message; the text says why, and holds nothing of it."""


def leaf(value: Json) -> str:
    """Return a value as the text of a leaf: what reads it back gets exactly this text."""
    text = "" if value is None else f"{value:f}" if isinstance(value, Decimal) else str(value)
    if text == NULL_TEXT:
        return "\\X22\\\\X22\\"  # unescaped it would mean: delete
    return CONTROL.sub(lambda found: f"\\X{ord(found[0]):02X}\\", escape(text, STANDARD))


def joined(separator: str, parts: Iterable[str]) -> str:
    """Return parts joined, without empty ones at the end."""
    return separator.join(parts).rstrip(separator)


def components(*values: Json) -> str:
    """Return leaf values as the components of a field."""
    return joined("^", map(leaf, values))


def repeated(fields: Iterable[str]) -> str:
    """Return the repetitions of a field."""
    return "~".join(field for field in fields if field)


def row(name: str, fields: Mapping[int, str]) -> str:
    """Return a segment from its fields by number, up to the last one that holds something."""
    made = ["", *("" for _ in range(max(fields)))]
    made[0] = name
    for number, text in fields.items():
        made[number] = text
    return joined("|", made)


def moment(value: Json) -> str:
    """Return a FHIR date or dateTime as one of HL7, as precise as it is; '' for none."""
    found = _MOMENT.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        return ""
    *parts, zone = found.groups("")
    return "".join(parts) + ("+0000" if zone == "Z" else zone.replace(":", ""))


Resource = JsonObject

NPI: Final = "http://hl7.org/fhir/sid/us-npi"
# Table 0396 by system; what is none of them is local to the laboratory.
SYSTEMS: Final = {
    "http://loinc.org": "LN",
    "http://snomed.info/sct": "SCT",
    "http://www.ama-assn.org/go/cpt": "C4",
    "http://hl7.org/fhir/sid/icd-10-cm": "I10",
    "http://hl7.org/fhir/sid/icd-10": "I10",
    "http://hl7.org/fhir/sid/icd-9-cm": "I9C",
    "http://unitsofmeasure.org": "UCUM",
}
LOCAL: Final = "L"
SEXES: Final = {"male": "M", "female": "F", "other": "O", "unknown": "U"}
_NAME_USES: Final = ("official", "usual")
_ADDRESS_TYPES: Final = {"home": "H", "work": "B", "temp": "C", "old": "BDL"}
_PHONE_USES: Final = {"home": "PRN", "work": "WPN", "mobile": "PRN", "old": "", "temp": "VHN"}
_PHONE_KINDS: Final = {"phone": "PH", "fax": "FX", "pager": "BP"}


def name_of(resource: Resource | None) -> Resource:
    """Return the name under which somebody is known: the official one, else the usual, else the first."""
    held = (resource or {}).get("name", ())
    names = [{"text": held}] if isinstance(held, str) else list(held)
    ranked = sorted(
        names, key=lambda one: _NAME_USES.index(one["use"]) if one.get("use") in _NAME_USES else len(_NAME_USES)
    )
    return ranked[0] if ranked else {}


def parts_of_name(name: Resource) -> tuple[str, str, str, str, str]:
    """Return family, first and further given names, suffix and prefix; a name that is text only is a family name."""
    given = name.get("given", ())
    family = name.get("family") or ("" if given else name.get("text", ""))
    first, further = (given[0], " ".join(given[1:])) if given else ("", "")
    return family, first, further, " ".join(name.get("suffix", ())), " ".join(name.get("prefix", ()))


def xpn(resource: Resource | None) -> str:
    """Return a person's name."""
    parts = parts_of_name(name_of(resource))
    return components(*parts, "", "L") if any(parts) else ""


def xad(address: Resource | None) -> str:
    """Return an address."""
    held = address or {}
    lines = held.get("line", ())
    street = [*lines[:1], " ".join(lines[1:])] if lines else [held.get("text", ""), ""]
    parts = [*street, *(held.get(one, "") for one in ("city", "state", "postalCode", "country"))]
    return components(*parts, _ADDRESS_TYPES.get(held.get("use", ""), "")) if any(parts) else ""


def addresses(resource: Resource | None) -> str:
    """Return the addresses of somebody, without former ones."""
    held = (resource or {}).get("address", ())
    return repeated(xad(one) for one in ([held] if isinstance(held, dict) else held) if one.get("use") != "old")


def telecoms(resource: Resource | None) -> str:
    """Return telephones and e-mail addresses, without former ones."""
    return repeated(_xtn(telecom) for telecom in (resource or {}).get("telecom", ()) if telecom.get("use") != "old")


def _xtn(contact: Resource) -> str:
    value, use = contact.get("value", ""), contact.get("use", "")
    if not value:
        return ""
    if contact.get("system") == "email":
        return components("", "NET", "Internet", value)
    kind = "CP" if use == "mobile" else _PHONE_KINDS.get(contact.get("system", "phone"), "PH")
    return components(value, _PHONE_USES.get(use, "PRN"), kind)


def ce(concept: Resource | None, text: str = "") -> str:
    """Return a CodeableConcept, or one of a single Coding, as a coded element: its code, and an alternate one.

    A code of the laboratory's own comes first, as it is what the laboratory knows the thing by.
    """
    held = concept or {}
    codings = [coding for coding in held.get("coding", ()) if coding.get("code")]
    codings.sort(key=lambda one: one.get("system", "") in SYSTEMS)
    said = text or held.get("text", "")
    if not codings:
        return components("", said) if said else ""
    triples = [(one["code"], one.get("display") or said, system(one.get("system", ""))) for one in codings[:2]]
    return components(*(part for triple in triples for part in triple))


def system(uri: str) -> str:
    """Return the name of a coding system (table 0396)."""
    return SYSTEMS.get(uri, LOCAL)


def hd(name: str, universal: str = "") -> str:
    """Return a hierarchic designator as components' parts: a namespace, or a universal id with its type."""
    if name:
        return leaf(name)
    if universal.startswith("urn:oid:"):
        return joined("&", ("", leaf(universal.removeprefix("urn:oid:")), "ISO"))
    return joined("&", ("", leaf(universal), "URI")) if universal else ""


def cx(identifier: Resource, namespace: str, kind: str) -> str:
    """Return an identifier with its assigning authority, by the system where it has no namespace."""
    authority = hd(namespace, identifier.get("system", ""))
    return joined("^", (leaf(identifier.get("value")), "", "", authority, kind))


def ei(value: str, namespace: str) -> str:
    """Return the number of an order, or of a group of them."""
    return components(value, namespace)


def npi_of(resource: Resource | None) -> str:
    """Return a National Provider Identifier, '' for none."""
    return next((one.get("value", "") for one in _identifiers(resource) if one.get("system") == NPI), "")


def xcn(practitioner: Resource | None) -> str:
    """Return a person who orders, with the National Provider Identifier where there is one."""
    if practitioner is None:
        return ""
    npi = npi_of(practitioner)
    number = npi or next((identifier.get("value", "") for identifier in _identifiers(practitioner)), "")
    authority = "NPI&2.16.840.1.113883.4.6&ISO" if npi else ""
    named = map(leaf, (number, *parts_of_name(name_of(practitioner)), ""))
    kind = "NPI" if npi else ""
    return joined("^", (*named, "", authority, "L", "", "", kind))


def xon(organization: Resource | None) -> str:
    """Return the name of an organization, with its National Provider Identifier where there is one."""
    npi = npi_of(organization)
    parts = [leaf((organization or {}).get("name", "")), "", "", "", "", *(("NPI", "NPI", "", "", npi) if npi else ())]
    return joined("^", map(str, parts))


def _identifiers(resource: Resource | None) -> Iterable[Resource]:
    found: Iterable[Resource] = (resource or {}).get("identifier", ())
    return found
