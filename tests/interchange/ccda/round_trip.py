"""A chart through a document and back: what of each fact is compared, and what a CCD does not carry."""

from collections import Counter
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from engine.interchange.clinical.facts import PATIENT, DocumentFacts
from engine.interchange.rest.resource.catalogue import KEPT

Json = Any

# What is compared of each type; a name ending in [x] is a choice of types.
COMPARED = {
    "AllergyIntolerance": (
        "code",
        "clinicalStatus",
        "verificationStatus",
        "criticality",
        "onset[x]",
        "recordedDate",
        "reaction",
    ),
    "CarePlan": ("category", "status", "intent", "period"),
    "Condition": (
        "code",
        "severity",
        "clinicalStatus",
        "verificationStatus",
        "onset[x]",
        "abatement[x]",
        "recordedDate",
        "bodySite",
    ),
    "Coverage": ("type", "status", "subscriberId", "relationship", "period"),
    "DiagnosticReport": ("code", "status", "effective[x]", "issued", "conclusion"),
    "Encounter": ("class", "type", "status", "period", "reasonCode", "hospitalization"),
    "FamilyMemberHistory": ("relationship", "status", "sex", "bornDate", "condition"),
    "Goal": ("description", "lifecycleStatus", "startDate", "target"),
    "Immunization": (
        "vaccineCode",
        "status",
        "statusReason",
        "occurrence[x]",
        "lotNumber",
        "doseQuantity",
        "route",
        "site",
    ),
    "MedicationRequest": (
        "medication[x]",
        "status",
        "intent",
        "doNotPerform",
        "authoredOn",
        "dosageInstruction",
        "reasonCode",
        "dispenseRequest",
    ),
    "MedicationStatement": ("medication[x]", "status", "effective[x]", "dateAsserted", "dosage", "reasonCode"),
    "Observation": (
        "category",
        "code",
        "status",
        "effective[x]",
        "value[x]",
        "dataAbsentReason",
        "interpretation",
        "referenceRange",
        "component",
    ),
    "Procedure": ("code", "status", "performed[x]", "bodySite", "reasonCode"),
    "ServiceRequest": ("code", "intent", "occurrence[x]", "authoredOn", "reasonCode"),
}
# What is compared of a part, where that is not all of it.
PARTS = {
    "hospitalization": ("dischargeDisposition",),
    "target": ("detail[x]", "dueDate"),
    "dosage": ("doseAndRate", "route", "site", "timing"),
    "dosageInstruction": ("doseAndRate", "route", "site", "timing"),
    "timing": ("repeat",),
    "dispenseRequest": ("numberOfRepeatsAllowed", "quantity"),
    "condition": ("code", "onsetAge", "contributedToDeath"),
    "reaction": ("manifestation", "onset", "severity"),
}


def lost(resource: Json) -> str:
    """Return why a fact is in no CCD; '' for one that is."""
    name = resource["resourceType"]
    codes = [coding.get("code") for coding in resource.get("code", {}).get("coding", ())]
    if name == "DocumentReference":
        return "a document is no entry of another one"
    if name == "Observation" and "85353-1" in codes:
        return "a panel of vital signs says nothing that its members do not"
    if name in {"ServiceRequest", "CarePlan"} and resource["status"] not in {"active", "draft", "on-hold", "unknown"}:
        return "a plan of treatment has what is to come"
    return ""


def facts_of(resources: list[Json]) -> Counter[str]:
    """Return the facts among resources as texts that are equal where the facts are, and how often each is there."""
    shown = (resource for resource in resources if resource["resourceType"] in COMPARED and not lost(resource))
    return Counter(f"{one['resourceType']} {_meant(_chosen(one, COMPARED[one['resourceType']]))}" for one in shown)


def charted(facts: DocumentFacts, patient: Json) -> list[Json]:
    """Return facts as a chart of a patient: with the elements that name whose they are, and plain references."""
    names = {f"urn:uuid:{one['id']}": f"{one['resourceType']}/{one['id']}" for one in facts.resources}
    names[PATIENT] = f"Patient/{patient['id']}"
    made = []
    for resource in facts.resources:
        holder = KEPT[resource["resourceType"]].patient
        made.append({**_linked(resource, names), **({holder: {"reference": names[PATIENT]}} if holder else {})})
    return [patient, *made]


def _linked(part: Json, names: dict[str, str]) -> Json:
    if isinstance(part, dict):
        made = {name: _linked(value, names) for name, value in part.items()}
        return {**made, "reference": names[part["reference"]]} if "reference" in part else made
    return [_linked(one, names) for one in part] if isinstance(part, list) else part


def _chosen(part: Json, names: tuple[str, ...]) -> Json:
    wanted = {name for name in names if not name.endswith("[x]")}
    choices = tuple(name.removesuffix("[x]") for name in names if name.endswith("[x]"))
    return {name: value for name, value in part.items() if name in wanted or (choices and name.startswith(choices))}


def _meant(part: Json, name: str = "") -> Any:
    """Return what a value means: codes without their display, times in UTC, numbers by value, lists without order."""
    if isinstance(part, list):
        return sorted((_meant(one, name) for one in part), key=repr)
    if isinstance(part, dict):
        return _object(part, name)
    if isinstance(part, str) and part[10:11] == "T":
        return datetime.fromisoformat(part).astimezone(UTC).isoformat()
    return _number(part) if isinstance(part, int | Decimal | float) and not isinstance(part, bool) else part


def _object(part: dict[str, Json], name: str) -> Any:
    if name == "repeat":
        return _often(part)
    if part.get("coding"):
        return sorted((one.get("system", ""), one["code"]) for one in part["coding"])
    if isinstance(part.get("code"), str) and "value" not in part:
        return [(part.get("system", ""), part["code"])]
    if isinstance(part.get("value"), int | Decimal | float):
        return _number(part["value"]), part.get("code") or part.get("unit", ""), part.get("comparator", "")
    part = _chosen(part, PARTS[name]) if name in PARTS else part
    made = {key: _meant(value, key) for key, value in part.items()}
    return sorted((key, value) for key, value in made.items() if value not in ([], "", None))


def _number(value: Any) -> str:
    return f"{Decimal(str(value)).normalize():f}"


def _often(repeat: Json) -> str:
    """Return the hours between two doses, however that is said; from when to when is told of the medication."""
    hours = {"min": Decimal(1) / 60, "h": 1, "d": 24, "wk": 168}[repeat["periodUnit"]]
    return f"every {round(Decimal(str(repeat['period'])) * hours / repeat.get('frequency', 1), 1).normalize():f} h"
