"""FHIR datatypes as those of HL7 v2: names, addresses, telecoms, codes, identifiers and numbers of orders."""

from collections.abc import Iterable
from typing import Final

from engine.fhir.json import JsonObject
from engine.interchange.orders.laboratory.message.texts import components, joined, leaf, repeated

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
    return repeated(_xtn(one) for one in (resource or {}).get("telecom", ()) if one.get("use") != "old")


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
    codings = [one for one in held.get("coding", ()) if one.get("code")]
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
    number = npi or next((one.get("value", "") for one in _identifiers(practitioner)), "")
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
