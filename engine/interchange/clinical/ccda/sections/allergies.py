"""Allergies and intolerances: AllergyIntolerance as a concern with the reaction that it is about."""

from collections.abc import Mapping
from typing import Final

from engine.fhir.json import JsonObject
from engine.interchange.clinical.ccda.codes import (
    ACT_CODE,
    ASSERTION,
    RXNORM,
    add_code,
    has_code,
    label,
    labels,
    loinc,
    snomed,
)
from engine.interchange.clinical.ccda.element import (
    Element,
    Template,
    add,
    add_reference,
    add_templates,
    add_value,
    template,
)
from engine.interchange.clinical.ccda.people import add_author
from engine.interchange.clinical.ccda.record import DocumentRecord
from engine.interchange.clinical.ccda.section import (
    SectionTable,
    SectionWriter,
    add_entry,
    add_notes,
    add_related,
    cell,
)
from engine.interchange.clinical.ccda.times import add_interval, add_time, span_of

CONCERN: Final = template("4.30", "2015-08-01")
OBSERVATION: Final = template("4.7", "2014-06-09")
REACTION: Final = template("4.9", "2014-06-09")
SEVERITY: Final = template("4.8", "2014-06-09")
CRITICALITY: Final = template("4.145")
STATUS: Final = template("4.28", "2019-06-20")
CONCERNED: Final = {"code": "CONC", "codeSystem": "2.16.840.1.113883.5.6", "codeSystemName": "HL7ActClass"}
SEVERE: Final = {"code": "SEV", "codeSystem": ACT_CODE, "codeSystemName": "HL7ActCode"}
OBSERVATION_VALUE: Final = {"codeSystem": "2.16.840.1.113883.5.1063", "codeSystemName": "HL7ObservationValue"}

ALLERGY: Final = snomed("419199007", "Allergy to substance")
# By what it is (`type`) and what it is of (`category`).
KINDS: Final[Mapping[tuple[str, str], dict[str, str]]] = {
    ("allergy", ""): ALLERGY,
    ("allergy", "medication"): snomed("416098002", "Allergy to drug"),
    ("allergy", "biologic"): snomed("416098002", "Allergy to drug"),
    ("allergy", "food"): snomed("414285001", "Allergy to food"),
    ("allergy", "environment"): ALLERGY,
    ("intolerance", ""): snomed("420134006", "Propensity to adverse reaction"),
    ("intolerance", "medication"): snomed("59037007", "Intolerance to drug"),
    ("intolerance", "biologic"): snomed("59037007", "Intolerance to drug"),
    ("intolerance", "food"): snomed("235719002", "Intolerance to food"),
    ("intolerance", "environment"): snomed("420134006", "Propensity to adverse reaction"),
    ("", ""): snomed("420134006", "Propensity to adverse reaction"),
    ("", "medication"): snomed("419511003", "Propensity to adverse reaction to drug"),
    ("", "biologic"): snomed("419511003", "Propensity to adverse reaction to drug"),
    ("", "food"): snomed("418471000", "Propensity to adverse reaction to food"),
    ("", "environment"): snomed("420134006", "Propensity to adverse reaction"),
}
# Codes for the absence of allergies, and the allergy that is absent: C-CDA negates the observation instead.
NONE_KNOWN: Final[Mapping[str, dict[str, str]]] = {
    "716186003": ALLERGY,
    "409137002": KINDS["allergy", "medication"],
    "429625007": KINDS["allergy", "food"],
    "428607008": ALLERGY,
}
STATUSES: Final[Mapping[str, dict[str, str]]] = {
    "active": snomed("55561003", "Active"),
    "inactive": snomed("73425007", "Inactive"),
    "resolved": snomed("413322009", "Resolved"),
}
SEVERITIES: Final[Mapping[str, dict[str, str]]] = {
    "mild": snomed("255604002", "Mild"),
    "moderate": snomed("6736007", "Moderate"),
    "severe": snomed("24484000", "Severe"),
}
CRITICALITIES: Final[Mapping[str, dict[str, str]]] = {
    "low": {"code": "CRITL", "displayName": "low criticality", **OBSERVATION_VALUE},
    "high": {"code": "CRITH", "displayName": "high criticality", **OBSERVATION_VALUE},
    "unable-to-assess": {"code": "CRITU", "displayName": "unable to assess criticality", **OBSERVATION_VALUE},
}


def status_of(resource: JsonObject) -> str:
    """Return the clinical status, active by default."""
    return next((status for status in STATUSES if has_code(resource.get("clinicalStatus"), status)), "active")


def add_concern(
    record: DocumentRecord, section: Element, concern: Template, resource: JsonObject, status: str
) -> Element:
    """Append a concern about a resource: active until it is resolved; its time is that of the record."""
    act = add_entry(section, "act", "ACT")
    add_templates(act, concern)
    record.add_ids(act, resource, "concern")
    add(act, "code", **CONCERNED)
    add(act, "statusCode", code="active" if status == "active" else "completed")
    add_interval(act, "effectiveTime", (resource.get("recordedDate", ""), ""), record.zone, ended=status != "active")
    add_author(act, record, resource.get("recorder"), resource, resource.get("recordedDate"))
    return act


def _write(record: DocumentRecord, section: Element, table: SectionTable, allergy: JsonObject) -> None:
    status = status_of(allergy)
    refuted = has_code(allergy.get("verificationStatus"), "refuted")
    reactions = allergy.get("reaction") or ()
    anchor = table.row(
        label(allergy.get("code")),
        " ".join((allergy.get("type") or "allergy or intolerance", *(allergy.get("category") or ())[:1])),
        "; ".join(labels(one.get("manifestation")) for one in reactions),
        next((one["severity"] for one in reactions if one.get("severity")), ""),
        allergy.get("criticality", ""),
        record.when(allergy, "onset"),
        "refuted" if refuted else status,
    )
    act = add_concern(record, section, CONCERN, allergy, status)
    made = add_related(act, "SUBJ", "observation", "OBS")
    none_known = _none_known(allergy)
    if refuted or none_known:
        made.set("negationInd", "true")
    add_templates(made, OBSERVATION)
    record.add_ids(made, allergy)
    add(made, "code", **ASSERTION)
    add_reference(made, anchor)
    add(made, "statusCode", code="completed")
    add_interval(made, "effectiveTime", span_of(allergy, "onset"), record.zone, ended=status == "resolved")
    kind = KINDS[allergy.get("type", ""), next(iter(allergy.get("category") or ()), "")]
    add_value(made, "CD", **(none_known or kind))
    substance = add(add(made, "participant", typeCode="CSM"), "participantRole", classCode="MANU")
    entity = add(substance, "playingEntity", classCode="MMAT")
    if none_known:
        add(entity, "code", nullFlavor="NA")
        return
    add_code(entity, "code", allergy.get("code"), prefer=(RXNORM,), anchor=cell(anchor))
    _add_finding(made, STATUS, loinc("33999-4", "Status"), "CE", STATUSES[status])
    for at, reaction in enumerate(reactions):
        _add_reaction(record, made, allergy, at, reaction, anchor)
    if allergy.get("criticality"):
        code = CRITICALITIES[allergy["criticality"]]
        _add_finding(made, CRITICALITY, loinc("82606-5", "Criticality"), "CD", code)
    add_notes(made, allergy, label(allergy.get("code")), table)


def _none_known(allergy: JsonObject) -> dict[str, str]:
    return next((none for code, none in NONE_KNOWN.items() if has_code(allergy.get("code"), code)), {})


def _add_finding(parent: Element, kind: Template, code: dict[str, str], data_type: str, value: dict[str, str]) -> None:
    """Append what is found of the allergy or of a reaction: a status, a severity, a criticality."""
    made = add_related(parent, "SUBJ", "observation", "OBS", inverted=True)
    add_templates(made, kind)
    add(made, "code", **code)
    add(made, "statusCode", code="completed")
    add_value(made, data_type, **value)


def _add_reaction(
    record: DocumentRecord, parent: Element, allergy: JsonObject, at: int, reaction: JsonObject, anchor: str
) -> None:
    """Append each manifestation of a reaction, all of the same time and severity."""
    for part, manifestation in enumerate(reaction.get("manifestation") or ({},)):
        made = add_related(parent, "MFST", "observation", "OBS", inverted=True)
        add_templates(made, REACTION)
        record.add_ids(made, allergy, f"reaction-{at}-{part}")
        add(made, "code", **ASSERTION)
        add_reference(made, cell(anchor, 3))
        add(made, "statusCode", code="completed")
        if reaction.get("onset"):
            add_time(add(made, "effectiveTime"), "low", reaction["onset"], record.zone)
        add_code(made, "value", manifestation, data_type="CD")
        if reaction.get("severity"):
            _add_finding(made, SEVERITY, SEVERE, "CD", SEVERITIES[reaction["severity"]])


ALLERGIES: Final = SectionWriter(
    "allergies",
    loinc("48765-2", "Allergies and adverse reactions"),
    "Allergies and Intolerances",
    (template("2.6.1", "2015-08-01"),),
    ("Substance", "Kind", "Reaction", "Severity", "Criticality", "Onset", "Status"),
    lambda record: record.of_type("AllergyIntolerance"),
    _write,
)
