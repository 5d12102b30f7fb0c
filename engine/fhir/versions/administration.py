"""Version differences in visits, documents, coverage, accounts and provenance."""

from typing import Final

from engine.fhir.versions.datatypes import who
from engine.fhir.versions.lens import Lens, Part, first_of, renamed

COVERAGE_CLASS: Final = "http://terminology.hl7.org/CodeSystem/coverage-class"
# STU3's grouping by name: the code of R4's class, and the element that names the group for people.
GROUPINGS: Final = {
    "group": "group",
    "subGroup": "subgroup",
    "plan": "plan",
    "subPlan": "subplan",
    "class": "class",
    "subClass": "subclass",
}
SEQUENCE: Final = "sequence"


def _class(code: str, value: str, name: str | None) -> Part:
    made: Part = {"type": {"coding": [{"system": COVERAGE_CLASS, "code": code}]}, "value": value}
    return {**made, "name": name} if name is not None else made


def _classes(part: Part) -> Part:
    grouping = part.get("grouping", {})
    made = [
        _class(code, grouping[name], grouping.get(f"{name}Display"))
        for name, code in GROUPINGS.items()
        if name in grouping
    ]
    if SEQUENCE in part:
        made.append(_class(SEQUENCE, part[SEQUENCE], None))
    return {"class": made} if made else {}


def _grouping(part: Part) -> Part:
    grouping: Part = {}
    made: Part = {}
    names = {code: name for name, code in GROUPINGS.items()}
    for item in part.get("class", []):
        codings = item.get("type", {}).get("coding", [])
        code = next((coding.get("code") for coding in codings if coding.get("system") == COVERAGE_CLASS), None)
        if code == SEQUENCE and "value" in item:
            made.setdefault(SEQUENCE, item["value"])
        elif code in names and "value" in item and names[code] not in grouping:
            grouping[names[code]] = item["value"]
            if "name" in item:
                grouping[f"{names[code]}Display"] = item["name"]
    return {"grouping": grouping, **made} if grouping else made


def _related_references(part: Part) -> Part:
    made = [_related_reference(item) for item in part.get("related", [])]
    return {"related": made} if made and all(made) else {}


def _related_reference(item: Part) -> Part:
    reference: Part = item.get("ref", {})
    return {"identifier": item["identifier"], **reference} if "identifier" in item else reference


def _related_items(part: Part) -> Part:
    return {"related": [_related_item(one) for one in part["related"]]} if "related" in part else {}


def _related_item(reference: Part) -> Part:
    if "identifier" not in reference:
        return {"ref": reference}
    rest = {name: value for name, value in reference.items() if name != "identifier"}
    return {"identifier": reference["identifier"], **({"ref": rest} if rest else {})}


def _codings(concepts: list[Part]) -> list[Part]:
    return [coding for concept in concepts for coding in concept.get("coding", [])[:1] or _by_text(concept)]


def _by_text(one: Part) -> list[Part]:
    return [{"display": one["text"]}] if "text" in one else []


def _activity(part: Part) -> Part:
    return {"activity": {"coding": [part["activity"]]}} if "activity" in part else {}


def _activity_stu3(part: Part) -> Part:
    codings = _codings([part.get("activity", {})])
    return {"activity": codings[0]} if codings else {}


def _reasons(part: Part) -> Part:
    return {"reason": [{"coding": [one]} for one in part["reason"]]} if "reason" in part else {}


def _reasons_stu3(part: Part) -> Part:
    codings = _codings(part.get("reason", []))
    return {"reason": codings} if codings else {}


WHAT: Final = who("what", "what")


def _what(part: Part) -> Part:
    if "whatIdentifier" in part:
        return {"what": {"identifier": part["whatIdentifier"]}}
    return WHAT.to_r4(part)


def _what_stu3(part: Part) -> Part:
    made = WHAT.to_stu3(part)
    reference = made.get("whatReference", {})
    return {"whatIdentifier": reference["identifier"]} if reference.keys() == {"identifier"} else made


LENSES: Final = {
    "MessageHeader": (renamed("event", "eventCoding"),),
    "Account": (renamed("period", "servicePeriod"),),
    "Binary": (renamed("content", "data"),),
    "Coverage": (Lens(("grouping", SEQUENCE), ("class",), _classes, _grouping),),
    "DocumentReference": (first_of("class", "category"), renamed("indexed", "date")),
    "DocumentReference_Context": (Lens(("related",), ("related",), _related_references, _related_items),),
    "Encounter": (renamed("reason", "reasonCode"),),
    "Encounter_Diagnosis": (renamed("role", "use"),),
    "Provenance": (
        renamed("period", "occurredPeriod"),
        Lens(("activity",), ("activity",), _activity, _activity_stu3),
        Lens(("reason",), ("reason",), _reasons, _reasons_stu3),
    ),
    "Provenance_Agent": (who("who", "who"), who("onBehalfOf", "onBehalfOf")),
    "Provenance_Entity": (Lens(("whatUri", "whatReference", "whatIdentifier"), ("what",), _what, _what_stu3),),
}
