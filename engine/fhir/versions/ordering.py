"""Version differences in orders, questionnaires and their responses."""

import re
from typing import Final

from engine.fhir.versions.direction import ABSENT
from engine.fhir.versions.lens import Lens, Part, context, renamed

# The types of an expected answer: in both versions, and in STU3 alone.
ANSWERS: Final = tuple(
    f"answer{name}"
    for name in (
        *("Boolean", "Decimal", "Integer", "Date", "DateTime", "Time", "String", "Coding", "Quantity", "Reference"),
    )
)
ANSWERS_STU3: Final = ("answerUri", "answerAttachment")
LANGUAGES: Final = ("text/cql", "text/fhirpath", "application/x-fhir-query")
EXPRESSION: Final = ("description", "language", "expression")
INITIAL: Final = "initial"
# The form of an address in R4; a reference of STU3 may be any text.
ADDRESS: Final = re.compile(r"[^\s\x00-\x1F]+")
# Participants with an element of their own in R4; STU3 has them in one list.
CONTRIBUTORS: Final = ("author", "editor", "reviewer", "endorser")


def canonical(stu3: str, r4: str) -> Lens:
    """Return the lens of a definition: a Reference in STU3, a canonical in R4, '#id' for a contained one."""

    def to_r4(part: Part) -> Part:
        address = part.get(stu3, {}).get("reference", "")
        return {r4: address} if ADDRESS.fullmatch(address) else {}

    def to_stu3(part: Part) -> Part:
        return {stu3: {"reference": part[r4]}} if r4 in part else {}

    return Lens((stu3,), (r4,), to_r4, to_stu3)


def canonicals(stu3: str, r4: str) -> Lens:
    """Return the lens of a list of definitions; each as in `canonical`."""

    def to_r4(part: Part) -> Part:
        found = [one.get("reference", "") for one in part.get(stu3, ())]
        return {r4: found} if found and all(map(ADDRESS.fullmatch, found)) else {}

    def to_stu3(part: Part) -> Part:
        found = [{"reference": one} for one in part.get(r4, ()) if one is not None]
        return {stu3: found} if found else {}

    return Lens((stu3,), (r4,), to_r4, to_stu3)


def _type(part: Part) -> Part:
    return {"type": {"coding": [part["type"]]}} if "type" in part else {}


def _type_stu3(part: Part) -> Part:
    codings = part.get("type", {}).get("coding", [])
    return {"type": codings[0]} if codings else {}


def _reasons(part: Part) -> Part:
    names = {"reasonCodeableConcept": "reasonCode", "reasonReference": "reasonReference"}
    return {names[name]: [value] for name, value in part.items()}


def _reason(part: Part) -> Part:
    if part.get("reasonCode"):
        return {"reasonCodeableConcept": part["reasonCode"][0]}
    return {"reasonReference": part["reasonReference"][0]} if part.get("reasonReference") else {}


def _options(part: Part) -> Part:
    return {"answerOption": part["option"]} if "option" in part else {}


def _option(part: Part) -> Part:
    """Return the options that STU3 can have; it states the initial choice elsewhere."""
    named = [
        {name: value for name, value in answer_option.items() if name.lstrip("_") != "initialSelected"}
        for answer_option in part.get("answerOption", ())
        if "valueReference" not in answer_option
    ]
    return {"option": named} if named else {}


def _contributors(part: Part) -> Part:
    made: Part = {}
    for contributor in part.get("contributor", ()):
        kind, contacts = str(contributor.get("type")), contributor.get("contact", [])
        if kind in CONTRIBUTORS and "name" in contributor:
            telecom = {"telecom": contacts[0]["telecom"]} if contacts and "telecom" in contacts[0] else {}
            made.setdefault(kind, []).append({"name": contributor["name"], **telecom})
    return made


def _contributors_stu3(part: Part) -> Part:
    made = [
        {
            "type": kind,
            "name": one["name"],
            **({"contact": [{"telecom": one["telecom"]}]} if "telecom" in one else {}),
        }
        for kind in CONTRIBUTORS
        for one in part.get(kind, ())
        if "name" in one
    ]
    return {"contributor": made} if made else {}


def _base(name: str) -> str:
    return name.removeprefix("_")


def _expression(part: Part) -> Part:
    """Return R4's Expression, whose language is from a fixed list; in STU3 it is optional and free text."""
    if part.get("language", LANGUAGES[0]) not in LANGUAGES:
        return {}
    language = {} if "language" in part or "_language" in part else {"_language": ABSENT}
    return {"expression": {**part, **language}}


def _expression_stu3(part: Part) -> Part:
    inner = part.get("expression", {})
    return {
        name: value
        for name, value in inner.items()
        if _base(name) in EXPRESSION and (name, value) != ("_language", ABSENT)
    }


def _enable_when(part: Part) -> Part:
    """Return R4's comparison: an answer exists, or equals this one."""
    if part.keys() == {"hasAnswer"}:
        return {"operator": "exists", "answerBoolean": part["hasAnswer"]}
    return {"operator": "=", **part} if {_base(name) for name in part} <= {*ANSWERS} else {}


def _enable_when_stu3(part: Part) -> Part:
    """Return STU3's form of a comparison; anything but equality becomes: an answer exists."""
    operator, answer = part.get("operator"), {name: value for name, value in part.items() if _base(name) in ANSWERS}
    if operator == "exists":
        return {"hasAnswer": part["answerBoolean"]} if "answerBoolean" in part else {}
    return answer if operator == "=" else {"hasAnswer": True} if operator is not None else {}


def _initial(part: Part) -> Part:
    return {INITIAL: [{f"{_mark(name)}value{_base(name)[len(INITIAL) :]}": value for name, value in part.items()}]}


def _initial_stu3(part: Part) -> Part:
    first = part[INITIAL][0] if part.get(INITIAL) else {}
    return {
        f"{_mark(name)}{INITIAL}{_base(name).removeprefix('value')}": value
        for name, value in first.items()
        if _base(name).startswith("value")
    }


def _mark(name: str) -> str:
    return "_" if name[0] == "_" else ""


COMPARED: Final = Lens(("hasAnswer", *ANSWERS, *ANSWERS_STU3), ("operator", *ANSWERS), _enable_when, _enable_when_stu3)
INITIALS: Final = tuple(f"{INITIAL}{one.removeprefix('answer')}" for one in (*ANSWERS, *ANSWERS_STU3))
DESCRIBED: Final = Lens(EXPRESSION, ("expression",), _expression, _expression_stu3)
LENSES: Final = {
    "ActivityDefinition": (
        Lens(("contributor",), CONTRIBUTORS, _contributors, _contributors_stu3),
        canonicals("library", "library"),
        canonical("transform", "transform"),
    ),
    "ActivityDefinition_DynamicValue": (DESCRIBED,),
    "QuestionnaireResponse": (
        context(),
        renamed("parent", "partOf"),
        canonical("questionnaire", "questionnaire"),
    ),
    "Questionnaire_EnableWhen": (COMPARED,),
    "Questionnaire_Item": (
        Lens(("option",), ("answerOption",), _options, _option),
        canonical("options", "answerValueSet"),
        Lens(INITIALS, (INITIAL,), _initial, _initial_stu3),
    ),
    "RequestGroup": (
        context(),
        canonicals("definition", "instantiatesCanonical"),
        Lens(("reasonCodeableConcept", "reasonReference"), ("reasonCode", "reasonReference"), _reasons, _reason),
    ),
    "RequestGroup_Action": (renamed("label", "prefix"), Lens(("type",), ("type",), _type, _type_stu3)),
    "RequestGroup_Condition": (DESCRIBED,),
}
