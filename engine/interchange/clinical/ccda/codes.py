"""Codes and identifier systems of FHIR as those of CDA: OIDs, translations, the original text, and null flavors."""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple
from uuid import NAMESPACE_URL, uuid5

from engine.fhir.json import JsonObject
from engine.interchange.clinical.ccda.element import TYPE, Element, add


class CdaSystem(NamedTuple):
    """One system: the address that FHIR knows it by, its OID, and its name in CDA."""

    uri: str
    oid: str
    name: str


HL7: Final = "2.16.840.1.113883"
V3: Final = "http://terminology.hl7.org/CodeSystem/v3-"

# Where an OID has several addresses, documents are read to the first.
SYSTEMS: Final = (
    CdaSystem("http://loinc.org", f"{HL7}.6.1", "LOINC"),
    CdaSystem("http://snomed.info/sct", f"{HL7}.6.96", "SNOMED CT"),
    CdaSystem("http://www.nlm.nih.gov/research/umls/rxnorm", f"{HL7}.6.88", "RxNorm"),
    CdaSystem("http://hl7.org/fhir/sid/ndc", f"{HL7}.6.69", "NDC"),
    CdaSystem("http://hl7.org/fhir/sid/cvx", f"{HL7}.12.292", "CVX"),
    CdaSystem("http://hl7.org/fhir/sid/mvx", f"{HL7}.12.227", "MVX"),
    CdaSystem("http://terminology.hl7.org/CodeSystem/MVX", f"{HL7}.12.227", "MVX"),
    CdaSystem("http://hl7.org/fhir/sid/icd-10-cm", f"{HL7}.6.90", "ICD-10-CM"),
    CdaSystem("http://hl7.org/fhir/sid/icd-10", f"{HL7}.6.3", "ICD-10"),
    CdaSystem("http://www.cms.gov/Medicare/Coding/ICD10", f"{HL7}.6.4", "ICD-10-PCS"),
    CdaSystem("http://hl7.org/fhir/sid/icd-10-pcs", f"{HL7}.6.4", "ICD-10-PCS"),
    CdaSystem("http://hl7.org/fhir/sid/icd-9-cm", f"{HL7}.6.103", "ICD-9-CM diagnoses"),
    CdaSystem("http://terminology.hl7.org/CodeSystem/ICD-9CM-diagnosiscodes", f"{HL7}.6.103", "ICD-9-CM diagnoses"),
    CdaSystem("http://terminology.hl7.org/CodeSystem/ICD-9CM-procedurecodes", f"{HL7}.6.104", "ICD-9-CM procedures"),
    CdaSystem("http://www.ama-assn.org/go/cpt", f"{HL7}.6.12", "CPT-4"),
    CdaSystem("http://www.cms.gov/Medicare/Coding/HCPCSReleaseCodeSets", f"{HL7}.6.285", "HCPCS"),
    CdaSystem("https://www.cms.gov/Medicare/Coding/HCPCSReleaseCodeSets", f"{HL7}.6.285", "HCPCS"),
    CdaSystem("http://www.ada.org/cdt", f"{HL7}.6.13", "CDT"),
    CdaSystem("http://fdasis.nlm.nih.gov", f"{HL7}.4.9", "UNII"),
    CdaSystem("http://ncicb.nci.nih.gov/xml/owl/EVS/Thesaurus.owl", f"{HL7}.3.26.1.1", "NCI Thesaurus"),
    CdaSystem("http://hl7.org/fhir/ndfrt", f"{HL7}.3.26.1.5", "NDF-RT"),
    CdaSystem("http://va.gov/terminology/medrt", f"{HL7}.6.345", "MED-RT"),
    CdaSystem("http://www.whocc.no/atc", f"{HL7}.6.73", "ATC"),
    CdaSystem("http://unitsofmeasure.org", f"{HL7}.6.8", "UCUM"),
    CdaSystem("urn:ietf:bcp:47", f"{HL7}.6.316", "Language tags"),
    CdaSystem("urn:iso:std:iso:3166", "1.0.3166.1.2.2", "ISO 3166"),
    CdaSystem("urn:oid:2.16.840.1.113883.6.238", f"{HL7}.6.238", "Race & Ethnicity - CDC"),
    CdaSystem("http://nucc.org/provider-taxonomy", f"{HL7}.6.101", "Health Care Provider Taxonomy"),
    CdaSystem("https://nahdo.org/sopt", f"{HL7}.3.221.5", "Source of Payment Typology"),
    CdaSystem("https://www.nubc.org/CodeSystem/PatDischargeStatus", f"{HL7}.6.301.5", "NUBC UB-04 FL17"),
    CdaSystem(
        "https://www.cms.gov/Medicare/Coding/place-of-service-codes/Place_of_Service_Code_Set",
        f"{HL7}.6.50",
        "CMS Place of Service",
    ),
    CdaSystem("https://www.cdc.gov/nhsn/cdaportal/terminology/codesystem/hsloc.html", f"{HL7}.6.259", "HSLOC"),
    CdaSystem("http://dicom.nema.org/resources/ontology/DCM", "1.2.840.10008.2.16.4", "DCM"),
    # Vocabularies of HL7 version 3.
    CdaSystem(f"{V3}ActCode", f"{HL7}.5.4", "HL7ActCode"),
    CdaSystem(f"{V3}ActClass", f"{HL7}.5.6", "HL7ActClass"),
    CdaSystem(f"{V3}ActMood", f"{HL7}.5.1001", "HL7ActMood"),
    CdaSystem(f"{V3}ActStatus", f"{HL7}.5.14", "HL7ActStatus"),
    CdaSystem(f"{V3}ActReason", f"{HL7}.5.8", "HL7ActReason"),
    CdaSystem(f"{V3}ActPriority", f"{HL7}.5.7", "HL7ActPriority"),
    CdaSystem(f"{V3}AdministrativeGender", f"{HL7}.5.1", "HL7AdministrativeGender"),
    CdaSystem(f"{V3}Confidentiality", f"{HL7}.5.25", "HL7Confidentiality"),
    CdaSystem(f"{V3}LanguageAbilityMode", f"{HL7}.5.60", "HL7LanguageAbilityMode"),
    CdaSystem(f"{V3}LanguageAbilityProficiency", f"{HL7}.5.61", "HL7LanguageAbilityProficiency"),
    CdaSystem(f"{V3}MaritalStatus", f"{HL7}.5.2", "HL7MaritalStatus"),
    CdaSystem(f"{V3}NullFlavor", f"{HL7}.5.1008", "HL7NullFlavor"),
    CdaSystem(f"{V3}ObservationInterpretation", f"{HL7}.5.83", "HL7ObservationInterpretation"),
    CdaSystem(f"{V3}ObservationValue", f"{HL7}.5.1063", "HL7ObservationValue"),
    CdaSystem(f"{V3}ParticipationFunction", f"{HL7}.5.88", "HL7ParticipationFunction"),
    CdaSystem(f"{V3}ParticipationType", f"{HL7}.5.90", "HL7ParticipationType"),
    CdaSystem(f"{V3}ReligiousAffiliation", f"{HL7}.5.1076", "HL7ReligiousAffiliation"),
    CdaSystem(f"{V3}RoleClass", f"{HL7}.5.110", "HL7RoleClass"),
    CdaSystem(f"{V3}RoleCode", f"{HL7}.5.111", "HL7RoleCode"),
    CdaSystem(f"{V3}RouteOfAdministration", f"{HL7}.5.112", "HL7RouteOfAdministration"),
    CdaSystem(f"{V3}substanceAdminSubstitution", f"{HL7}.5.1070", "HL7SubstanceAdminSubstitution"),
    CdaSystem(f"{V3}TimingEvent", f"{HL7}.5.139", "HL7TimingEvent"),
    CdaSystem(f"{V3}EntityNamePartQualifier", f"{HL7}.5.43", "HL7EntityNamePartQualifier"),
    # Identifiers of the United States.
    CdaSystem("http://hl7.org/fhir/sid/us-npi", f"{HL7}.4.6", "NPI"),
    CdaSystem("http://hl7.org/fhir/sid/us-ssn", f"{HL7}.4.1", "SSN"),
    CdaSystem("http://hl7.org/fhir/sid/us-mbi", f"{HL7}.4.927", "MBI"),
    CdaSystem("http://hl7.org/fhir/sid/us-medicare", f"{HL7}.4.572", "Medicare number"),
    CdaSystem("urn:oid:2.16.840.1.113883.4.2", f"{HL7}.4.2", "EIN"),
    CdaSystem("urn:oid:2.16.840.1.113883.4.7", f"{HL7}.4.7", "CLIA"),
)
BY_URI: Final = {one.uri: one for one in SYSTEMS}
BY_OID: Final = {one.oid: one for one in reversed(SYSTEMS)}

# Tables of HL7 version 2 go by their number; STU3 had addresses of its own for these and for version 3.
V2: Final = "http://terminology.hl7.org/CodeSystem/v2-"
V2_OID: Final = f"{HL7}.12."
FORMER: Final = (("http://hl7.org/fhir/v2/", V2), ("http://hl7.org/fhir/v3/", V3))
# An OID that is made from an address (ITU-T X.667: a UUID under 2.25); its name is that address.
DERIVED: Final = "2.25."
OID: Final = re.compile(r"[0-2](\.(0|[1-9][0-9]*))+")


def system_by_uri(uri: str) -> CdaSystem | None:
    """Return the system of an address in FHIR; None for one that has no registered OID."""
    for former, present in FORMER:
        if uri.startswith(former):
            uri = present + uri.removeprefix(former)
    known = BY_URI.get(uri)
    if known is not None:
        return known
    if uri.startswith(V2) and (number := uri.removeprefix(V2)).isdecimal() and number.isascii():
        return CdaSystem(uri, f"{V2_OID}{int(number)}", f"HL7 table {number.zfill(4)}")
    oid = uri.removeprefix("urn:oid:")
    return system_by_oid(oid) if oid != uri and OID.fullmatch(oid) else None


def system_by_oid(oid: str, name: str = "") -> CdaSystem:
    """Return the system of an OID; `name` is the one in the document.

    An OID that we made of an address becomes that address again, if `name` is it; an unknown one becomes `urn:oid:`.
    """
    known = BY_OID.get(oid)
    if known is not None:
        return known
    if oid.startswith(DERIVED) and derived_oid(name) == oid:
        return CdaSystem(name, oid, name)
    number = oid.removeprefix(V2_OID)
    if number != oid and number.isdecimal() and len(number) <= 4:
        return CdaSystem(f"{V2}{number.zfill(4)}", oid, f"HL7 table {number.zfill(4)}")
    return CdaSystem(f"urn:oid:{oid}", oid, name)


def derived_oid(uri: str) -> str:
    """Return an OID for an address that has none: always the same one, and that of no other address."""
    return f"{DERIVED}{uuid5(NAMESPACE_URL, uri).int}"


Fixed = dict[str, str]

LOINC_URI: Final = "http://loinc.org"
LOINC: Final = "2.16.840.1.113883.6.1"
SNOMED: Final = "2.16.840.1.113883.6.96"
RXNORM: Final = "2.16.840.1.113883.6.88"
CVX: Final = "2.16.840.1.113883.12.292"
ACT_CODE: Final = "2.16.840.1.113883.5.4"


def loinc(code: str, display: str) -> Fixed:
    """Return the attributes of a LOINC code; `display` may be ''."""
    fixed = {"code": code, "codeSystem": LOINC, "codeSystemName": "LOINC"}
    return {**fixed, "displayName": display} if display else fixed


def snomed(code: str, display: str) -> Fixed:
    """Return the attributes of a SNOMED CT code."""
    return {"code": code, "codeSystem": SNOMED, "codeSystemName": "SNOMED CT", "displayName": display}


ASSERTION: Final = {"code": "ASSERTION", "codeSystem": ACT_CODE, "codeSystemName": "HL7ActCode"}


def label(concept: JsonObject | None) -> str:
    """Return what people read of a CodeableConcept: its text, the name of a code, or a code; '' for nothing."""
    if not concept:
        return ""
    if concept.get("text"):
        return str(concept["text"])
    codings = concept.get("coding") or ()
    for coding in codings:
        if coding.get("display"):
            return str(coding["display"])
    return next((str(one["code"]) for one in codings if one.get("code")), "")


def labels(concepts: Sequence[JsonObject] | None) -> str:
    """Return what people read of several concepts."""
    return ", ".join(text for text in map(label, concepts or ()) if text)


def has_code(concept: JsonObject | None, *codes: str) -> bool:
    """Say whether one of a concept's codings is one of some codes."""
    return any(coding.get("code") in codes for coding in (concept or {}).get("coding") or ())


def add_code(
    parent: Element,
    tag: str,
    concept: JsonObject | None,
    *,
    prefer: Sequence[str] = (),
    demand: str = "",
    data_type: str = "",
    anchor: str = "",
) -> Element:
    """Append a CodeableConcept.

    The first code of the first system that the template prefers is the main code, the others are translations. A code
    whose system has no registered OID is never the main code: the null flavor OTH is, as where the template demands a
    system (`demand`) that no code has. `anchor` is the place of the text in the narrative.
    """
    concept = concept or {}
    known, others = _sorted(concept.get("coding") or (), (demand,) if demand else prefer)
    front = known[0] if known and (not demand or known[0][0].oid == demand) else None
    if front:
        made = add(parent, tag, **_attributes(*front))
    else:
        made = add(parent, tag, nullFlavor="OTH" if concept.get("text") or known or others else "UNK")
    if data_type:
        made.set(TYPE, data_type)
    text = concept.get("text") or ("" if front else label(concept))
    if text:
        original = add(made, "originalText", text)
        if anchor:
            add(original, "reference", value=f"#{anchor}")
    for system, coding in (*known[1 if front else 0 :], *others):
        add(made, "translation", **_attributes(system, coding))
    return made


def is_loinc(concept: JsonObject | None, *codes: str) -> bool:
    """Say whether one of a concept's codings is one of some codes of LOINC."""
    return any(
        coding.get("code") in codes and coding.get("system") == LOINC_URI
        for coding in (concept or {}).get("coding") or ()
    )


def coded(concept: JsonObject | None) -> bool:
    """Say whether a concept has a code of a system with a registered OID."""
    return any(
        coding.get("code") and system_by_uri(coding.get("system", "")) for coding in (concept or {}).get("coding") or ()
    )


def _sorted(
    codings: Sequence[JsonObject], prefer: Sequence[str]
) -> tuple[list[tuple[CdaSystem, JsonObject]], list[tuple[CdaSystem, JsonObject]]]:
    """Return the codings of systems with an OID, the preferred first, and those of others."""
    known, others = [], []
    for coding in codings:
        if not coding.get("code", "").strip():
            continue
        uri = coding.get("system", "")
        system = system_by_uri(uri)
        if system:
            known.append((system, coding))
        elif uri:
            others.append((CdaSystem(uri, derived_oid(uri), uri), coding))
    if len(known) > 1:
        rank = {oid: at for at, oid in enumerate(prefer)}
        known.sort(key=lambda one: rank.get(one[0].oid, len(rank)))
    return known, others


def _attributes(system: CdaSystem, coding: JsonObject) -> Fixed:
    made = {"code": "".join(coding["code"].split()), "codeSystem": system.oid, "codeSystemName": system.name}
    if coding.get("display"):
        made["displayName"] = coding["display"]
    return made
