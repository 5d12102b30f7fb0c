"""Payers: Coverage as a policy, with who pays and as whom the patient is covered."""

from collections.abc import Mapping
from typing import Final

from engine.fhir.json import JsonObject
from engine.interchange.clinical.ccda.codes import add_code, label, loinc
from engine.interchange.clinical.ccda.element import Element, add, add_reference, add_templates, template
from engine.interchange.clinical.ccda.people import add_organization, name_of
from engine.interchange.clinical.ccda.record import DocumentRecord, add_identifiers
from engine.interchange.clinical.ccda.section import SectionTable, SectionWriter, add_entry, add_related, cell
from engine.interchange.clinical.ccda.times import add_interval, readable_span

ACTIVITY: Final = template("4.60", "2015-08-01")
POLICY: Final = template("4.61", "2015-08-01")
PAYER: Final = template("4.87")
COVERED: Final = template("4.89")
ROLE_CODE: Final = {"codeSystem": "2.16.840.1.113883.5.111", "codeSystemName": "HL7RoleCode"}
RELATIONS: Final[Mapping[str, str]] = {
    "self": "SELF",
    "spouse": "SPS",
    "child": "CHILD",
    "parent": "PRN",
    "common": "DOMPART",
    "other": "FAMDEP",
    "injured": "INJ",
}


def _write(record: DocumentRecord, section: Element, table: SectionTable, coverage: JsonObject) -> None:
    period = coverage.get("period") or {}
    span = period.get("start", ""), period.get("end", "")
    payor: JsonObject = next(iter(coverage.get("payor") or ()), {})
    relation = label(coverage.get("relationship"))
    plan = next((one.get("name") or one["value"] for one in coverage.get("class") or ()), "")
    anchor = table.row(
        name_of(record, payor, coverage),
        label(coverage.get("type")),
        plan,
        coverage.get("subscriberId", ""),
        relation,
        readable_span(span, record.zone),
        coverage.get("status", ""),
    )
    made = add_entry(section, "act", "ACT")
    add_templates(made, ACTIVITY)
    record.add_ids(made, coverage, "coverage")
    add(made, "code", **loinc("48768-6", "Payment sources"))
    add_reference(made, anchor)
    add(made, "statusCode", code="completed")
    policy = add_related(made, "COMP", "act", "ACT")
    add_templates(policy, POLICY)
    record.add_ids(policy, coverage)
    kind = add_code(policy, "code", coverage.get("type"), anchor=cell(anchor, 2))
    if kind.find("{*}translation") is None:
        add(kind, "translation", nullFlavor="UNK")
    add(policy, "statusCode", code="completed")
    _add_payer(record, policy, coverage, payor)
    _add_covered(record, policy, coverage, span)
    _add_plan(record, policy, coverage, plan)


def _add_payer(record: DocumentRecord, policy: Element, coverage: JsonObject, payor: JsonObject) -> None:
    performer = add(policy, "performer", typeCode="PRF")
    add_templates(performer, PAYER)
    entity = add(performer, "assignedEntity")
    found = record.find(payor, coverage) or {}
    if not add_identifiers(entity, found.get("identifier")):
        add(entity, "id", nullFlavor="UNK")
    add(entity, "code", code="PAYOR", codeSystem="2.16.840.1.113883.5.110", codeSystemName="HL7RoleClass")
    organization = found if found.get("resourceType") == "Organization" else {"name": name_of(record, payor, coverage)}
    add_organization(entity, "representedOrganization", organization)


def _add_covered(record: DocumentRecord, policy: Element, coverage: JsonObject, span: tuple[str, str]) -> None:
    participant = add(policy, "participant", typeCode="COV")
    add_templates(participant, COVERED)
    if any(span):
        add_interval(participant, "time", span, record.zone)
    role = add(participant, "participantRole", classCode="PAT")
    if coverage.get("subscriberId"):
        add(role, "id", root=record.root("subscriber"), extension=coverage["subscriberId"])
    else:
        add(role, "id", nullFlavor="UNK")
    codes = [coding.get("code", "") for coding in (coverage.get("relationship") or {}).get("coding") or ()]
    code = next((RELATIONS[one] for one in codes if one in RELATIONS), "")
    add(role, "code", code=code, **ROLE_CODE) if code else add(role, "code", nullFlavor="UNK")


def _add_plan(record: DocumentRecord, policy: Element, coverage: JsonObject, plan: str) -> None:
    made = add_related(policy, "REFR", "act", "ACT", "DEF")
    record.add_ids(made, coverage, "plan")
    add(made, "code", nullFlavor="UNK")
    if plan:
        add(made, "text", plan)


PAYERS: Final = SectionWriter(
    "payers",
    loinc("48768-6", "Payment sources"),
    "Payers",
    (template("2.18", "2015-08-01"),),
    ("Payer", "Type", "Plan", "Member id", "Relationship", "Period", "Status"),
    lambda record: record.of_type("Coverage"),
    _write,
)
