"""People and organizations: their names, addresses, telephones, and the roles in which CDA names them."""

from collections.abc import Mapping, Sequence
from typing import Final

from engine.fhir.json import JsonObject
from engine.interchange.clinical.ccda.codes import add_code
from engine.interchange.clinical.ccda.element import Element, add, add_templates, template
from engine.interchange.clinical.ccda.record import DocumentRecord, add_identifiers
from engine.interchange.clinical.ccda.times import add_time

NAME_USES: Final[Mapping[str, str]] = {
    "usual": "L",
    "official": "L",
    "nickname": "P",
    "anonymous": "ASGN",
    "old": "L",
    "maiden": "L",
}
ADDRESS_USES: Final[Mapping[str, str]] = {"home": "HP", "work": "WP", "temp": "TMP", "old": "BAD"}
TELECOM_USES: Final[Mapping[str, str]] = {"home": "HP", "work": "WP", "mobile": "MC", "temp": "HP", "old": "BAD"}
SCHEMES: Final[Mapping[str, str]] = {"phone": "tel:", "fax": "fax:", "pager": "tel:", "sms": "tel:", "email": "mailto:"}
AUTHOR: Final = template("4.119")
MOST_LINES: Final = 4


def add_name(parent: Element, name: JsonObject) -> None:
    """Append a HumanName: its parts, or its text where it has not both a family and a given name."""
    given = [one for one in name.get("given") or () if one]
    family = name.get("family")
    if not (given and family):
        text = name.get("text") or " ".join((*given, family or ""))
        add(parent, "name", text.strip()) if text.strip() else add(parent, "name", nullFlavor="UNK")
        return
    use = NAME_USES.get(name.get("use", ""))
    made = add(parent, "name", use=use) if use else add(parent, "name")
    for tag, parts in (
        ("prefix", name.get("prefix")),
        ("given", given),
        ("family", (family,)),
        ("suffix", name.get("suffix")),
    ):
        for part in parts or ():
            if part:
                add(made, tag, part)


def add_patient_name(parent: Element, name: JsonObject) -> None:
    """Append a name of the patient, who needs a given and a family name: a missing one is unknown."""
    given = [one for one in name.get("given") or () if one]
    if given and name.get("family"):
        add_name(parent, name)
        return
    made = add(parent, "name")
    for tag, part in (
        *(("given", one) for one in given or [""]),
        ("family", name.get("family") or name.get("text", "")),
    ):
        add(made, tag, part) if part else add(made, tag, nullFlavor="UNK")


def add_addresses(parent: Element, addresses: Sequence[JsonObject] | None) -> None:
    """Append addresses, or an unknown one."""
    for address in addresses or (None,):
        add_address(parent, address)


def add_address(parent: Element, address: JsonObject | None) -> None:
    """Append an address of at most four lines; a missing part that the US realm requires is unknown."""
    address = address or {}
    lines = [line for line in address.get("line") or () if line] or [address.get("text", "")]
    if not (lines[0] or address.get("city")):
        add(parent, "addr", nullFlavor="UNK")
        return
    use = ADDRESS_USES.get(address.get("use", ""))
    made = add(parent, "addr", use=use) if use else add(parent, "addr")
    for line in (*lines[: MOST_LINES - 1], ", ".join(lines[MOST_LINES - 1 :])) if len(lines) > MOST_LINES else lines:
        add(made, "streetAddressLine", line) if line else add(made, "streetAddressLine", nullFlavor="UNK")
    for tag, part in (("city", "city"), ("state", "state"), ("postalCode", "postalCode")):
        text = address.get(part)
        add(made, tag, text) if text else add(made, tag, nullFlavor="UNK")
    if address.get("country"):
        add(made, "country", address["country"])


def add_telecoms(parent: Element, telecoms: Sequence[JsonObject] | None, *, most: int = 10) -> None:
    """Append telephones, addresses of e-mail and of pages, or an unknown one."""
    found = [telecom for telecom in telecoms or () if telecom.get("value", "").strip()][:most]
    for one in found:
        value = "".join(one["value"].split())
        scheme = SCHEMES.get(one.get("system", ""), "")
        use = TELECOM_USES.get(one.get("use", ""))
        value = value if value.startswith(scheme) else scheme + value
        add(parent, "telecom", value=value, use=use) if use else add(parent, "telecom", value=value)
    if not found:
        add(parent, "telecom", nullFlavor="UNK")


def add_assigned(
    parent: Element, tag: str, record: DocumentRecord, reference: JsonObject | None, within: JsonObject
) -> Element:
    """Append who a Reference names as an assignedEntity or assignedAuthor: a practitioner, a role, an organization.

    Of one that is not in the chart there is the display.
    """
    found = record.find(reference, within) or {}
    kind = found.get("resourceType")
    person, organization = (found, {}) if kind not in {"PractitionerRole", "Organization"} else ({}, found)
    role = found if kind == "PractitionerRole" else {}
    if role:
        person = record.find(role.get("practitioner"), role) or {
            "name": [{"text": (role.get("practitioner") or {}).get("display", "")}]
        }
        organization = record.find(role.get("organization"), role) or {
            "name": (role.get("organization") or {}).get("display", "")
        }
    made = add(parent, tag)
    if not add_identifiers(made, person.get("identifier") or organization.get("identifier")):
        add(made, "id", nullFlavor="UNK")
    specialty = (role.get("specialty") or role.get("code") or ())[:1]
    if specialty and any(coding.get("code") for coding in specialty[0].get("coding") or ()):
        add_code(made, "code", specialty[0])
    add_addresses(made, (person.get("address") or organization.get("address") or ())[:1])
    add_telecoms(made, role.get("telecom") or person.get("telecom") or organization.get("telecom"), most=3)
    display = (reference or {}).get("display", "")
    if person or not organization:
        names = [name for name in person.get("name") or () if isinstance(name, dict)]
        add_name(add(made, "assignedPerson"), names[0] if names else {"text": display})
    if organization.get("name") or kind == "Organization":
        add_organization(made, "representedOrganization", organization)
    return made


def add_organization(parent: Element, tag: str, organization: JsonObject) -> Element:
    """Append an organization: ids, name, one telephone, one address."""
    made = add(parent, tag)
    if not add_identifiers(made, organization.get("identifier")):
        add(made, "id", nullFlavor="UNK")
    name = organization.get("name", "")
    add(made, "name", name) if name else add(made, "name", nullFlavor="UNK")
    add_telecoms(made, organization.get("telecom"), most=1)
    add_addresses(made, (organization.get("address") or ())[:1])
    return made


def add_performer(
    parent: Element, record: DocumentRecord, reference: JsonObject, within: JsonObject, **attributes: str
) -> Element:
    """Append a performer of an entry."""
    made = add(parent, "performer", **attributes)
    add_assigned(made, "assignedEntity", record, reference, within)
    return made


def add_author(
    parent: Element, record: DocumentRecord, reference: JsonObject | None, within: JsonObject, time: str | None
) -> None:
    """Append who recorded an entry, and when; nothing if both are unknown."""
    if not (reference or time):
        return
    made = add(parent, "author")
    add_templates(made, AUTHOR)
    add_time(made, "time", time or "", record.zone)
    add_assigned(made, "assignedAuthor", record, reference, within)


def name_of(record: DocumentRecord, reference: JsonObject | None, within: JsonObject) -> str:
    """Return the readable name of a Reference's target; '' for none."""
    if not reference:
        return ""
    if reference.get("display"):
        return str(reference["display"])
    found = record.find(reference, within) or {}
    if found.get("resourceType") == "PractitionerRole":
        return name_of(record, found.get("practitioner") or found.get("organization"), found)
    name = found.get("name", "")
    return shown_name(name[0]) if isinstance(name, list) and name else name or ""


def shown_name(name: JsonObject) -> str:
    """Return a HumanName as people read it."""
    parts = (*(name.get("prefix") or ()), *(name.get("given") or ()), name.get("family"), *(name.get("suffix") or ()))
    return str(name.get("text") or " ".join(part for part in parts if part))
