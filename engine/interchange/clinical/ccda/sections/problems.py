"""Problems: Condition as a concern with the observation that it is about; diagnoses of encounters are with these."""

from collections.abc import Mapping, Sequence
from typing import Final

from engine.fhir.json import JsonObject
from engine.interchange.clinical.ccda.codes import SNOMED, add_code, has_code, label, labels, loinc, snomed
from engine.interchange.clinical.ccda.element import Element, add, add_reference, add_templates, add_value, template
from engine.interchange.clinical.ccda.people import add_author
from engine.interchange.clinical.ccda.record import DocumentRecord
from engine.interchange.clinical.ccda.section import SectionTable, SectionWriter, add_notes, add_related, cell
from engine.interchange.clinical.ccda.sections.allergies import SEVERE, SEVERITY, add_concern
from engine.interchange.clinical.ccda.times import Span, add_interval, span_of

CONCERN: Final = template("4.3", "2015-08-01")
OBSERVATION: Final = template("4.4", "2015-08-01")
STATUS: Final = template("4.6", "2019-06-20")
NO_PROBLEMS: Final = "160245001"
# The kind of problem: a SNOMED CT code with its LOINC translation.
PROBLEM: Final = (snomed("55607006", "Problem"), loinc("75326-9", "Problem"))
DIAGNOSIS: Final = (snomed("282291009", "Diagnosis interpretation"), loinc("29308-4", "Diagnosis"))
STATUSES: Final[Mapping[str, dict[str, str]]] = {
    "active": snomed("55561003", "Active"),
    "recurrence": snomed("246455001", "Recurrence"),
    "relapse": snomed("263855007", "Relapse phase"),
    "inactive": snomed("73425007", "Inactive"),
    "remission": snomed("277022003", "Remission phase"),
    "resolved": snomed("413322009", "Resolved"),
}
OVER: Final = frozenset({"inactive", "remission", "resolved"})


def status_of(condition: JsonObject) -> str:
    """Return the clinical status; without one a problem that has ended is resolved, and another one active."""
    ended = any(key.startswith("abatement") for key in condition)
    status = next((status for status in STATUSES if has_code(condition.get("clinicalStatus"), status)), "")
    return status or ("resolved" if ended else "active")


def span(condition: JsonObject) -> Span:
    """Return when a problem began and when it ended."""
    began, ended = span_of(condition, "onset"), span_of(condition, "abatement")
    return began[0], ended[1] or ended[0] or began[1]


def add_problem(record: DocumentRecord, made: Element, condition: JsonObject, anchor: str, at: int = 1) -> None:
    """Fill the observation of a problem; `at` is the cell of the row that names it.

    The first cell is that of a concern, which says who recorded it; else the observation does.
    """
    status = status_of(condition)
    none = has_code(condition.get("code"), NO_PROBLEMS)
    if none or has_code(condition.get("verificationStatus"), "refuted"):
        made.set("negationInd", "true")
    add_templates(made, OBSERVATION)
    record.add_ids(made, condition)
    kind, translation = DIAGNOSIS if has_code({"coding": _categories(condition)}, "encounter-diagnosis") else PROBLEM
    add(add(made, "code", **kind), "translation", **translation)
    add_reference(made, anchor)
    add(made, "statusCode", code="completed")
    add_interval(made, "effectiveTime", span(condition), record.zone, ended=status == "resolved")
    if none:
        add_value(made, "CD", **PROBLEM[0])
        return
    add_code(made, "value", condition.get("code"), prefer=(SNOMED,), data_type="CD", anchor=cell(anchor, at))
    for site in condition.get("bodySite") or ():
        add_code(made, "targetSiteCode", site, prefer=(SNOMED,))
    if at > 1:
        add_author(made, record, condition.get("recorder"), condition, condition.get("recordedDate"))
    add_author(made, record, condition.get("asserter"), condition, None)
    if condition.get("severity"):
        _add_severity(made, condition["severity"])
    found = add_related(made, "REFR", "observation", "OBS")
    add_templates(found, STATUS)
    add(found, "code", **loinc("33999-4", "Status"))
    add(found, "statusCode", code="completed")
    add_value(found, "CD", **STATUSES[status])


def _add_severity(parent: Element, severity: JsonObject) -> None:
    made = add_related(parent, "SUBJ", "observation", "OBS", inverted=True)
    add_templates(made, SEVERITY)
    add(made, "code", **SEVERE)
    add(made, "statusCode", code="completed")
    add_code(made, "value", severity, prefer=(SNOMED,), data_type="CD")


def _categories(condition: JsonObject) -> list[JsonObject]:
    return [coding for category in condition.get("category") or () for coding in category.get("coding") or ()]


def diagnoses(record: DocumentRecord) -> dict[str, list[JsonObject]]:
    """Return the conditions of each encounter that is not planned, by the encounter's id.

    These are the ones that it names, and the ones that are only its diagnosis.
    """
    found: dict[str, list[JsonObject]] = {}
    for encounter in record.of_type("Encounter"):
        if encounter.get("status") != "planned":
            named = [record.find(one.get("condition"), encounter) for one in encounter.get("diagnosis") or ()]
            found[encounter.get("id", "")] = [one for one in named if one and one["resourceType"] == "Condition"]
    for condition in filter(_only_diagnosis, record.of_type("Condition")):
        encounter = record.find(condition.get("encounter"), condition) or {}
        others = found.get(encounter.get("id", ""), [condition])
        if all(other is not condition for other in others):
            others.append(condition)
    return found


def listed(record: DocumentRecord) -> Sequence[JsonObject]:
    """Return the conditions, without those that are only the diagnosis of an encounter: these are listed with it."""
    elsewhere = {id(one) for group in diagnoses(record).values() for one in group if _only_diagnosis(one)}
    return [condition for condition in record.of_type("Condition") if id(condition) not in elsewhere]


def _only_diagnosis(condition: JsonObject) -> bool:
    return {coding.get("code") for coding in _categories(condition)} == {"encounter-diagnosis"}


def _write(record: DocumentRecord, section: Element, table: SectionTable, condition: JsonObject) -> None:
    status = status_of(condition)
    began, ended = span(condition)
    anchor = table.row(
        label(condition.get("code")),
        labels(condition.get("category")),
        label(condition.get("severity")),
        record.readable(began) or condition.get("onsetString", ""),
        record.readable(ended) or condition.get("abatementString", ""),
        "refuted" if has_code(condition.get("verificationStatus"), "refuted") else status,
    )
    act = add_concern(record, section, CONCERN, condition, "completed" if status in OVER else "active")
    made = add_related(act, "SUBJ", "observation", "OBS")
    add_problem(record, made, condition, anchor)
    add_notes(made, condition, label(condition.get("code")), table)


PROBLEMS: Final = SectionWriter(
    "problems",
    loinc("11450-4", "Problem list"),
    "Problems",
    (template("2.5.1", "2015-08-01"),),
    ("Problem", "Category", "Severity", "Began", "Ended", "Status"),
    listed,
    _write,
)
