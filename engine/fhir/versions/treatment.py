"""Version differences in medication, procedures and immunizations."""

from typing import Final

from engine.fhir.versions.direction import ABSENT
from engine.fhir.versions.lens import Lens, LensCondition, Part, PartConversion, context, nothing, renamed

# STU3's `taken` is part of R4's status.
TAKEN: Final = {"active": "y", "completed": "y", "stopped": "y", "on-hold": "y"}
STATEMENT_STATUSES: Final = frozenset({*TAKEN, "entered-in-error", "intended"})
NOT_TAKEN: Final = "not-taken"
NOT_DONE: Final = "not-done"
DOSE: Final = {"doseSequence": "doseNumberPositiveInt", "seriesDoses": "seriesDosesPositiveInt"}
NO_DOSE: Final = {"doseNumberString": "unknown"}
SAME_IN_PROTOCOLS: Final = ("series", "authority", "targetDisease")


def _agent(part: Part) -> Part:
    return {"requester": part["requester"]["agent"]} if "agent" in part.get("requester", {}) else {}


def _requester(part: Part) -> Part:
    return {"requester": {"agent": part["requester"]}} if "requester" in part else {}


REQUESTER: Final = Lens(("requester",), ("requester",), _agent, _requester)


def _with_names(stu3: str, r4: str, names: dict[str, str]) -> Lens:
    """Return the lens of a list of backbone elements whose own elements have other names."""

    def turn(old: str, new: str, inner: dict[str, str]) -> PartConversion:
        def turned(item: Part) -> Part:
            return {inner.get(name, name): value for name, value in item.items()}

        return lambda part: {new: [turned(item) for item in part[old]]} if old in part else {}

    return Lens((stu3,), (r4,), turn(stu3, r4, names), turn(r4, stu3, {new: old for old, new in names.items()}))


def _statement_status(part: Part) -> Part:
    status, taken = part.get("status"), part.get("taken")
    if taken == "n" and str(status) in TAKEN:
        return {"status": NOT_TAKEN}
    if taken == "unk" and status == "active":
        return {"status": "unknown"}
    return {name: part[name] for name in ("status", "_status") if name in part}


def _statement_taken(part: Part) -> Part:
    status = part.get("status")
    if status == NOT_TAKEN:
        return {"status": "active", "taken": "n"}
    if status == "unknown":
        return {"status": "active", "taken": "unk"}
    if str(status) not in STATEMENT_STATUSES:
        return {"_status": ABSENT, "taken": "unk"}
    return {**part, "taken": TAKEN.get(str(status), "unk")}


def _procedure_status(part: Part) -> Part:
    if part.get("notDone") is True:
        return {"status": NOT_DONE}
    status = part.get("status")
    made: Part = {"status": PROCEDURE.get(str(status), status)} if status is not None else {}
    return {**made, "_status": part["_status"]} if "_status" in part else made


def _procedure_not_done(part: Part) -> Part:
    status = part.get("status")
    if status == NOT_DONE:
        return {"status": "completed", "notDone": True}
    made: Part = {"status": PROCEDURE_STU3.get(str(status), status)} if status is not None else {}
    return {**made, "_status": part["_status"]} if "_status" in part else made


PROCEDURE: Final = {"suspended": "on-hold", "aborted": "stopped"}
PROCEDURE_STU3: Final = {r4: stu3 for stu3, r4 in PROCEDURE.items()}


def _immunization_status(part: Part) -> Part:
    if part.get("status") == "completed" and part.get("notGiven") is True:
        return {"status": NOT_DONE}
    return {name: part[name] for name in ("status", "_status") if name in part}


def _not_given(part: Part) -> Part:
    if part.get("status") == NOT_DONE:
        return {"status": "completed", "notGiven": True}
    return {**part, "notGiven": False} if part else {}


def _explained(part: Part) -> Part:
    reasons = part.get("explanation", {}).get("reasonNotGiven", [])
    return {"statusReason": reasons[0]} if reasons else {}


def _explanation(part: Part) -> Part:
    return {"explanation": {"reasonNotGiven": [part["statusReason"]]}} if "statusReason" in part else {}


def _why_given(part: Part) -> Part:
    reasons = part.get("explanation", {}).get("reason")
    return {"reasonCode": reasons} if reasons else {}


def _reason_given(part: Part) -> Part:
    return {"explanation": {"reason": part["reasonCode"]}} if "reasonCode" in part else {}


# Where STU3 allows a reason for not done (its rules mst-1, imm-1 and imm-2, and the element's definition); elsewhere
# R4's status reason means something else.
NOT_TAKING: Final = LensCondition({"taken": "n"}, {"status": NOT_TAKEN}, nothing, nothing)
NOT_DOING: Final = LensCondition({"notDone": True}, {"status": NOT_DONE}, nothing, nothing)
NOT_GIVING: Final = LensCondition(
    {"notGiven": True, "status": "completed"}, {"status": NOT_DONE}, _why_given, _reason_given
)


def _applied(part: Part) -> Part:
    made = []
    for protocol in part.get("vaccinationProtocol", []):
        same = {name: protocol[name] for name in SAME_IN_PROTOCOLS if protocol.get(name, [ABSENT]) != [ABSENT]}
        doses = {new: protocol[old] for old, new in DOSE.items() if old in protocol}
        made.append({**same, **doses} if "doseSequence" in protocol else {**same, **doses, **NO_DOSE})
    return {"protocolApplied": made} if made else {}


def _protocol(part: Part) -> Part:
    made = []
    for applied in part.get("protocolApplied", []):
        same = {name: applied[name] for name in SAME_IN_PROTOCOLS if name in applied}
        doses = {old: applied[new] for old, new in DOSE.items() if new in applied}
        made.append({"doseStatus": ABSENT, "targetDisease": [ABSENT], **same, **doses})
    return {"vaccinationProtocol": made} if made else {}


def _allowed(part: Part) -> Part:
    return {"allowedBoolean": part["allowed"]} if "allowed" in part else {}


def _allowed_stu3(part: Part) -> Part:
    return {"allowed": part["allowedBoolean"]} if "allowedBoolean" in part else {}


LENSES: Final = {
    "CareTeam": (context(),),
    "Immunization": (
        Lens(("status", "notGiven"), ("status",), _immunization_status, _not_given),
        renamed("date", "occurrenceDateTime"),
        _with_names("practitioner", "performer", {"role": "function"}),
        Lens(("explanation",), ("reasonCode", "statusReason"), _explained, _explanation, NOT_GIVING),
        Lens(("vaccinationProtocol",), ("protocolApplied",), _applied, _protocol),
    ),
    "MedicationRequest": (context(), REQUESTER),
    "MedicationRequest_Substitution": (
        Lens(("allowed",), ("allowedBoolean", "allowedCodeableConcept"), _allowed, _allowed_stu3),
    ),
    "MedicationStatement": (
        Lens(("status", "taken"), ("status",), _statement_status, _statement_taken),
        renamed("reasonNotTaken", "statusReason", NOT_TAKING),
    ),
    "Procedure": (
        context(),
        Lens(("status", "notDone"), ("status",), _procedure_status, _procedure_not_done),
        renamed("notDoneReason", "statusReason", NOT_DOING),
    ),
    "Procedure_Performer": (renamed("role", "function"),),
    "ServiceRequest": (context(), REQUESTER),
}
