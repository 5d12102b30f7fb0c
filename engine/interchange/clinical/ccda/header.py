"""The header of a document (US Realm Header): patient, author, custodian, and the documented care."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from zoneinfo import ZoneInfo

from engine.fhir.json import JsonObject
from engine.interchange.clinical.ccda.codes import Fixed, add_code, loinc, system_by_oid
from engine.interchange.clinical.ccda.element import Element, add, add_extension, add_templates, template
from engine.interchange.clinical.ccda.people import (
    add_address,
    add_addresses,
    add_assigned,
    add_name,
    add_organization,
    add_patient_name,
    add_telecoms,
)
from engine.interchange.clinical.ccda.record import URN, DocumentRecord
from engine.interchange.clinical.ccda.times import add_interval, value_of

TEMPLATES: Final = (template("1.1", "2015-08-01"), template("1.2", "2015-08-01"))
DOCUMENT_CODE: Final = loinc("34133-9", "Summarization of Episode Note")
TITLE: Final = "Continuity of Care Document"
SOFTWARE: Final = "Clinical Data Interchange Service"
US_CORE: Final = "http://hl7.org/fhir/us/core/StructureDefinition/us-core-"
RACES: Final = "2.16.840.1.113883.6.238"
GENDERS: Final[Mapping[str, tuple[str, str]]] = {
    "female": ("F", "Female"),
    "male": ("M", "Male"),
    "other": ("UN", "Undifferentiated"),
}
MOST_PERFORMERS: Final = 20
# Contacts of a patient (table 0131 of HL7 v2, as RoleClass).
CONTACTS: Final[Mapping[str, str]] = {"C": "ECON", "N": "NOK", "E": "AGNT"}


def add_header(document: Element, record: DocumentRecord, document_id: str) -> None:
    """Append all that precedes the body."""
    patient = record.patient
    add(document, "realmCode", code="US")
    add(document, "typeId", root="2.16.840.1.113883.1.3", extension="POCD_HD000040")
    add_templates(document, *TEMPLATES)
    add(document, "id", root=record.root(f"document/{document_id}"))
    add(document, "code", **DOCUMENT_CODE)
    add(document, "title", TITLE)
    add(document, "effectiveTime", value=moment(record.at, record.zone))
    add(document, "confidentialityCode", **_fixed("2.16.840.1.113883.5.25", "N", "normal"))
    add(document, "languageCode", code="en-US")
    # One set for each patient; a version for each second, so that a later document has a greater number.
    add(document, "setId", root=record.root(f"set/{patient.get('id', '')}"))
    add(document, "versionNumber", value=str(int(record.at.timestamp()) - 1_577_836_800))
    _add_patient(add(document, "recordTarget"), record)
    _add_author(add(document, "author"), record)
    custodian = add(add(document, "custodian"), "assignedCustodian")
    add_organization(custodian, "representedCustodianOrganization", _organization(record))
    for contact in patient.get("contact") or ():
        _add_contact(document, contact)
    _add_care(add(document, "documentationOf"), record)


def moment(at: datetime, zone: ZoneInfo) -> str:
    """Return the moment of a document, to the second."""
    return value_of(at.replace(microsecond=0).isoformat(), zone)


def _fixed(oid: str, code: str, display: str) -> Fixed:
    return {"code": code, "codeSystem": oid, "codeSystemName": system_by_oid(oid).name, "displayName": display}


def _add_patient(target: Element, record: DocumentRecord) -> None:
    patient = record.patient
    role = add(target, "patientRole")
    record.add_ids(role, patient)
    add_addresses(role, patient.get("address"))
    add_telecoms(role, patient.get("telecom"))
    person = add(role, "patient")
    names: Sequence[JsonObject] = patient.get("name") or ({},)
    for name in names:
        add_patient_name(person, name)
    gender = GENDERS.get(patient.get("gender", ""))
    if gender:
        add(person, "administrativeGenderCode", **_fixed("2.16.840.1.113883.5.1", *gender))
    else:
        add(person, "administrativeGenderCode", nullFlavor="UNK")
    born = patient.get("birthDate", "").replace("-", "")
    add(person, "birthTime", value=born) if born else add(person, "birthTime", nullFlavor="UNK")
    _add_death(person, record)
    if patient.get("maritalStatus"):
        add_code(person, "maritalStatusCode", patient["maritalStatus"], prefer=("2.16.840.1.113883.5.2",))
    _add_races(person, patient)
    for language in patient.get("communication") or ():
        _add_language(person, language)
    keeper = record.find(patient.get("managingOrganization"), patient)
    if keeper:
        add_organization(role, "providerOrganization", keeper)


def _add_death(person: Element, record: DocumentRecord) -> None:
    died = record.patient.get("deceasedDateTime", "")
    if died or record.patient.get("deceasedBoolean"):
        add_extension(person, "deceasedInd", value="true")
    if died:
        add_extension(person, "deceasedTime", value=value_of(died, record.zone))


def _add_races(person: Element, patient: JsonObject) -> None:
    """Append race and ethnicity: the first code as CDA has it, the rest as the extension has them."""
    for url, tag in (("race", "raceCode"), ("ethnicity", "ethnicGroupCode")):
        codings = list(_codings(patient, url))
        first = codings[0] if codings else None
        _add_race(add, person, tag, first) if first else add(person, tag, nullFlavor="UNK")
        for coding in codings[1:]:
            _add_race(add_extension, person, tag, coding)


def _add_race(how: Any, person: Element, tag: str, coding: JsonObject) -> None:
    if coding.get("code") in {"UNK", "ASKU"}:
        how(person, tag, nullFlavor=coding["code"])
        return
    how(person, tag, **_fixed(RACES, coding["code"], coding.get("display") or coding["code"]))


def _codings(patient: JsonObject, name: str) -> Iterator[JsonObject]:
    """Yield the codes of an extension of US Core: the categories, then what is more detailed."""
    for kind in ("ombCategory", "detailed"):
        for extension in patient.get("extension") or ():
            if extension.get("url") == US_CORE + name:
                for part in extension.get("extension") or ():
                    coding = part.get("valueCoding") or {}
                    if part.get("url") == kind and coding.get("code"):
                        yield coding


def _add_language(person: Element, language: JsonObject) -> None:
    codings = (language.get("language") or {}).get("coding") or ()
    code = next((coding["code"] for coding in codings if coding.get("code")), "")
    made = add(person, "languageCommunication")
    add(made, "languageCode", code=code) if code else add(made, "languageCode", nullFlavor="UNK")
    if "preferred" in language:
        add(made, "preferenceInd", value=str(language["preferred"]).lower())


def _add_author(author: Element, record: DocumentRecord) -> None:
    """Append that the service made the document, for the organization that keeps it."""
    keeper = record.custodian
    add(author, "time", value=moment(record.at, record.zone))
    assigned = add(author, "assignedAuthor")
    add(assigned, "id", root=record.root("service"))
    add_address(assigned, keeper.postal)
    add_telecoms(assigned, keeper.telecom, most=3)
    device = add(assigned, "assignedAuthoringDevice")
    add(device, "manufacturerModelName", SOFTWARE)
    add(device, "softwareName", f"{SOFTWARE} at {keeper.address}")
    add_organization(assigned, "representedOrganization", _organization(record))


def _organization(record: DocumentRecord) -> JsonObject:
    """Return who keeps the chart as an Organization; without identifiers it has one that is made of its address."""
    keeper = record.custodian
    return {
        "name": keeper.name,
        "identifier": keeper.identifiers or [{"system": URN, "value": f"urn:uuid:{record.root('custodian')}"}],
        "telecom": keeper.telecom,
        "address": [keeper.postal] if keeper.postal else [],
    }


def _add_contact(document: Element, contact: JsonObject) -> None:
    """Append a contact person."""
    if not (contact.get("name") or contact.get("organization")):
        return
    codes = [coding.get("code", "") for one in contact.get("relationship") or () for coding in one.get("coding") or ()]
    participant = add(document, "participant", typeCode="IND")
    kind = next((CONTACTS[code] for code in codes if code in CONTACTS), "CON")
    entity = add(participant, "associatedEntity", classCode=kind)
    for relationship in (contact.get("relationship") or ())[:1]:
        add_code(entity, "code", relationship, prefer=("2.16.840.1.113883.5.111",))
    add_addresses(entity, [contact["address"]] if contact.get("address") else ())
    add_telecoms(entity, contact.get("telecom"), most=3)
    add_name(
        add(entity, "associatedPerson"), contact.get("name") or {"text": contact["organization"].get("display", "")}
    )


def _add_care(documentation: Element, record: DocumentRecord) -> None:
    """Append the documented care: from birth to the document's time, with its performers."""
    event = add(documentation, "serviceEvent", classCode="PCPR")
    add_interval(event, "effectiveTime", (record.patient.get("birthDate", ""), record.at.isoformat()), record.zone)
    for reference in _carers(record):
        performer = add(event, "performer", typeCode="PRF")
        add_assigned(performer, "assignedEntity", record, reference, record.patient)


def _carers(record: DocumentRecord) -> list[JsonObject]:
    """Return references to those who care for a patient: the general practitioners, then those of encounters."""
    general = record.patient.get("generalPractitioner") or ()
    others = (
        participant["individual"]
        for encounter in record.of_type("Encounter")
        for participant in encounter.get("participant") or ()
        if participant.get("individual")
    )
    named = {one.get("reference") or one.get("display", ""): one for one in (*general, *others)}
    return [one for name, one in named.items() if name][:MOST_PERFORMERS]
