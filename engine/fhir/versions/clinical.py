"""Version differences in conditions, observations, reports and goals."""

from typing import Final

from engine.fhir.versions.lens import Lens, Part, concept, context, renamed

TERMINOLOGY: Final = "http://terminology.hl7.org/CodeSystem/"
ACHIEVEMENT: Final = f"{TERMINOLOGY}goal-achievement"
GENDER: Final = "http://hl7.org/fhir/administrative-gender"
# STU3's one status of a goal is two elements in R4.
GOALS: Final = {
    "in-progress": ("active", "in-progress"),
    "on-target": ("active", "in-progress"),
    "ahead-of-target": ("active", "improving"),
    "behind-target": ("active", "worsening"),
    "sustaining": ("active", "sustaining"),
    "achieved": ("completed", "achieved"),
}
GOAL_STATUSES: Final = {"active": "in-progress", "completed": "achieved"}
RELATED: Final = {"has-member": "hasMember", "derived-from": "derivedFrom"}


def _same(*codes: str) -> dict[str, str]:
    return {code: code for code in codes}


def _note(part: Part) -> Part:
    note = {name: part[key] for key, name in (("comment", "text"), ("_comment", "_text")) if key in part}
    return {"note": [note]} if note else {}


def _comment(part: Part) -> Part:
    notes = part.get("note", [])
    if len(notes) == 1:
        return {key: notes[0][name] for key, name in (("comment", "text"), ("_comment", "_text")) if name in notes[0]}
    texts = [note["text"] for note in notes if "text" in note]
    return {"comment": "\n".join(texts)} if texts else {}


def _members(part: Part) -> Part:
    made: Part = {}
    for item in part.get("related", []):
        name = RELATED.get(str(item.get("type")))
        if name and "target" in item:
            made.setdefault(name, []).append(item["target"])
    return made


def _related(part: Part) -> Part:
    made = [{"type": kind, "target": one} for kind, name in RELATED.items() for one in part.get(name, [])]
    return {"related": made} if made else {}


def _lifecycle(part: Part) -> Part:
    status = part.get("status")
    if status is None:
        return {"_lifecycleStatus": part["_status"]} if "_status" in part else {}
    made: Part = {"lifecycleStatus": status}
    if str(status) in GOALS:
        made["lifecycleStatus"], achieved = GOALS[str(status)]
        made["achievementStatus"] = {"coding": [{"system": ACHIEVEMENT, "code": achieved}]}
    return {**made, "_lifecycleStatus": part["_status"]} if "_status" in part else made


def _goal_status(part: Part) -> Part:
    lifecycle = part.get("lifecycleStatus")
    made: Part = {"_status": part["_lifecycleStatus"]} if "_lifecycleStatus" in part else {}
    if lifecycle is None:
        return made
    codings = part.get("achievementStatus", {}).get("coding", [])
    achieved = next((coding.get("code") for coding in codings if coding.get("system") == ACHIEVEMENT), None)
    status = next((status for status, pair in GOALS.items() if pair == (lifecycle, achieved)), None)
    return {"status": status or GOAL_STATUSES.get(str(lifecycle), lifecycle), **made}


def _actors(part: Part) -> Part:
    actors = [item["actor"] for item in part.get("performer", []) if "actor" in item]
    return {"performer": actors} if actors else {}


def _performers(part: Part) -> Part:
    return {"performer": [{"actor": one} for one in part["performer"]]} if "performer" in part else {}


def _reason_text(part: Part) -> Part:
    return {"statusReason": {"text": part["statusReason"]}} if "statusReason" in part else {}


def _reason(part: Part) -> Part:
    """Return a reason's text, else the first display name of its codings."""
    reason = part.get("statusReason", {})
    texts = [
        one[name]
        for one, name in ((reason, "text"), *((coding, "display") for coding in reason.get("coding", [])))
        if name in one
    ]
    return {"statusReason": texts[0]} if texts else {}


RECORDED: Final = renamed("assertedDate", "recordedDate")
LENSES: Final = {
    "AllergyIntolerance": (
        RECORDED,
        concept(
            ("clinicalStatus", "clinicalStatus"),
            f"{TERMINOLOGY}allergyintolerance-clinical",
            _same("active", "inactive", "resolved"),
        ),
        concept(
            ("verificationStatus", "verificationStatus"),
            f"{TERMINOLOGY}allergyintolerance-verification",
            _same("unconfirmed", "confirmed", "refuted", "entered-in-error"),
        ),
    ),
    "CarePlan": (context(),),
    "CarePlan_Detail": (
        renamed("prohibited", "doNotPerform"),
        Lens(("statusReason",), ("statusReason",), _reason_text, _reason),
    ),
    "Condition": (
        RECORDED,
        context(),
        concept(
            ("clinicalStatus", "clinicalStatus"),
            f"{TERMINOLOGY}condition-clinical",
            _same("active", "recurrence", "inactive", "remission", "resolved"),
            {"relapse": "recurrence"},
        ),
        concept(
            ("verificationStatus", "verificationStatus"),
            f"{TERMINOLOGY}condition-ver-status",
            {
                **_same("provisional", "differential", "confirmed", "refuted", "entered-in-error"),
                "unknown": "unconfirmed",
            },
        ),
    ),
    "DiagnosticReport": (
        context(),
        renamed("codedDiagnosis", "conclusionCode"),
        renamed("image", "media"),
        Lens(("performer",), ("performer",), _actors, _performers),
    ),
    "FamilyMemberHistory": (
        concept(("gender", "sex"), GENDER, _same("male", "female", "other", "unknown")),
        renamed("notDoneReason", "dataAbsentReason"),
    ),
    "Goal": (Lens(("status",), ("lifecycleStatus", "achievementStatus"), _lifecycle, _goal_status),),
    "Observation": (
        context(),
        Lens(("comment",), ("note",), _note, _comment),
        Lens(("related",), ("hasMember", "derivedFrom"), _members, _related),
    ),
}
