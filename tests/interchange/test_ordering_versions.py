"""What differs between the versions in orders, and in what is asked and answered with them: both ways, nothing lost."""

import copy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.fhir.schema import FhirVersion, defects
from engine.fhir.versions.conversion import convert
from engine.fhir.versions.direction import Direction
from engine.interchange.kernel.view import to_stored
from tests.interchange.resources import resources
from tests.interchange.test_version_rules import LATER, R4, STU3, differing, whole
from tests.interchange.test_versions import BACK, THERE

TYPES = ("ActivityDefinition", "Questionnaire", "QuestionnaireResponse", "RequestGroup", "Specimen")
WORDS = {"text": "words"}
ACTION_TYPES = "http://terminology.hl7.org/CodeSystem/action-type"
FORMER_TYPES = "http://hl7.org/fhir/action-type"
HOUR = {"value": 1, "unit": "h"}
CONDITION = {"description": "when awake", "language": "text/fhirpath", "expression": "true"}
ABSENT = {"extension": [{"url": "http://hl7.org/fhir/StructureDefinition/data-absent-reason", "valueCode": "unknown"}]}


def asking(**more: Any) -> dict[str, Any]:
    """Return a Questionnaire's elements: one item with more elements."""
    return {"item": [{"id": "a", "linkId": "a", "type": "choice", **more}]}


# Each line holds in both directions.
RULES = [
    differing(
        "RequestGroup",
        {
            "context": {"reference": "Encounter/e"},
            "definition": [{"reference": "PlanDefinition/d"}],
            "status": "suspended",
        },
        {"encounter": {"reference": "Encounter/e"}, "instantiatesCanonical": ["PlanDefinition/d"], "status": "on-hold"},
    ),
    differing("RequestGroup", {"status": "cancelled"}, {"status": "revoked"}),
    differing("RequestGroup", {"reasonCodeableConcept": WORDS}, {"reasonCode": [WORDS]}),
    differing("RequestGroup", {"reasonReference": {"display": "a pain"}}, {"reasonReference": [{"display": "a pain"}]}),
    differing(
        "RequestGroup",
        {
            "action": [
                {
                    "label": "1.",
                    "type": {"system": FORMER_TYPES, "code": "create"},
                    "condition": [{"kind": "applicability", **CONDITION}],
                    "relatedAction": [{"actionId": "b", "relationship": "before-start", "offsetDuration": HOUR}],
                    "timingDuration": HOUR,
                    "resource": {"reference": "ProcedureRequest/t"},
                    "action": [{"label": "2."}],
                }
            ]
        },
        {
            "action": [
                {
                    "prefix": "1.",
                    "type": {"coding": [{"system": ACTION_TYPES, "code": "create"}]},
                    "condition": [{"kind": "applicability", "expression": CONDITION}],
                    "relatedAction": [{"actionId": "b", "relationship": "before-start", "offsetDuration": HOUR}],
                    "timingDuration": HOUR,
                    "resource": {"reference": "ServiceRequest/t"},
                    "action": [{"prefix": "2."}],
                }
            ]
        },
    ),
    differing(
        "QuestionnaireResponse",
        {
            "parent": [{"reference": "Observation/o"}],
            "basedOn": [{"reference": "ProcedureRequest/t"}],
            "context": {"reference": "Encounter/e"},
            "questionnaire": {"reference": "http://example.org/Questionnaire/q|2"},
        },
        {
            "partOf": [{"reference": "Observation/o"}],
            "basedOn": [{"reference": "ServiceRequest/t"}],
            "encounter": {"reference": "Encounter/e"},
            "questionnaire": "http://example.org/Questionnaire/q|2",
        },
    ),
    differing(
        "Questionnaire",
        asking(option=[{"valueCoding": {"code": "Y", "system": "http://hl7.org/fhir/v2/0136"}}, {"valueString": "no"}]),
        asking(
            answerOption=[
                {"valueCoding": {"code": "Y", "system": "http://terminology.hl7.org/CodeSystem/v2-0136"}},
                {"valueString": "no"},
            ]
        ),
    ),
    differing(
        "Questionnaire",
        asking(options={"reference": "http://example.org/ValueSet/v|1"}),
        asking(answerValueSet="http://example.org/ValueSet/v|1"),
    ),
    differing("Questionnaire", asking(initialBoolean=True), asking(initial=[{"valueBoolean": True}])),
    differing("Questionnaire", asking(initialCoding={"code": "Y"}), asking(initial=[{"valueCoding": {"code": "Y"}}])),
    differing(
        "Questionnaire",
        asking(
            enableWhen=[
                {"question": "b", "hasAnswer": True},
                {"question": "b", "hasAnswer": False},
                {"question": "b", "answerInteger": 3},
                {"question": "b", "answerCoding": {"code": "Y"}},
            ]
        ),
        asking(
            enableWhen=[
                {"question": "b", "operator": "exists", "answerBoolean": True},
                {"question": "b", "operator": "exists", "answerBoolean": False},
                {"question": "b", "operator": "=", "answerInteger": 3},
                {"question": "b", "operator": "=", "answerCoding": {"code": "Y"}},
            ]
        ),
    ),
    differing(
        "Questionnaire",
        asking(enableWhen=[{"question": "b"}]),
        asking(enableWhen=[{"question": "b", "_operator": ABSENT, "answerCoding": ABSENT}]),
    ),
    differing(
        "ActivityDefinition",
        {
            "kind": "ProcedureRequest",
            "library": [{"reference": "Library/l"}],
            "transform": {"reference": "StructureMap/m"},
            "contributor": [
                {"type": "author", "name": "A. Lind", "contact": [{"telecom": [{"value": "555"}]}]},
                {"type": "reviewer", "name": "B. Holm"},
            ],
            "dynamicValue": [{"path": "status", **CONDITION}],
        },
        {
            "kind": "ServiceRequest",
            "library": ["Library/l"],
            "transform": "StructureMap/m",
            "author": [{"name": "A. Lind", "telecom": [{"value": "555"}]}],
            "reviewer": [{"name": "B. Holm"}],
            "dynamicValue": [{"path": "status", "expression": CONDITION}],
        },
    ),
    differing(
        "Questionnaire",
        {
            "useContext": [
                {
                    "code": {"code": "a"},
                    "valueCodeableConcept": ABSENT,
                    "extension": [{"url": f"{LATER}UsageContext.value", "valueReference": {"display": "a"}}],
                }
            ]
        },
        {"useContext": [{"code": {"code": "a"}, "valueReference": {"display": "a"}}]},
    ),
    differing(
        "ActivityDefinition",
        {"dynamicValue": [{"path": "status", "expression": "true"}]},
        {"dynamicValue": [{"path": "status", "expression": {"expression": "true", "_language": ABSENT}}]},
    ),
    differing("Specimen", {"subject": ABSENT}, {"subject": None}),
    differing(
        "Specimen", {"request": [{"reference": "ProcedureRequest/t"}]}, {"request": [{"reference": "ServiceRequest/t"}]}
    ),
]
# What STU3 shows of what only R4 can say; the rest comes back from beside it.
SHOWN = [
    pytest.param(
        "Questionnaire",
        asking(enableWhen=[{"question": "b", "operator": ">", "answerInteger": 3}], enableBehavior="any"),
        ["item", 0, "enableWhen", 0, "hasAnswer"],
        True,
        id="comparisons",
    ),
    pytest.param(
        "Questionnaire",
        asking(
            answerOption=[{"valueReference": {"display": "a"}}, {"valueString": "b", "initialSelected": True}],
        ),
        ["item", 0, "option"],
        [{"valueString": "b"}],
        id="options",
    ),
    pytest.param(
        "Questionnaire",
        asking(initial=[{"valueInteger": 1}, {"valueInteger": 2}]),
        ["item", 0, "initialInteger"],
        1,
        id="several at the start",
    ),
    pytest.param(
        "RequestGroup",
        {"reasonCode": [WORDS, {"text": "more"}], "reasonReference": [{"display": "x"}], "code": WORDS},
        ["reasonCodeableConcept"],
        WORDS,
        id="several reasons",
    ),
    pytest.param(
        "RequestGroup",
        {"action": [{"priority": "stat", "timingAge": HOUR, "type": {"coding": [{"code": "a"}], "text": "b"}}]},
        ["action", 0, "type"],
        {"code": "a"},
        id="an action",
    ),
    pytest.param(
        "ActivityDefinition",
        {"kind": "ServiceRequest", "participant": [{"type": "device"}], "author": [{"telecom": [{"value": "555"}]}]},
        ["kind"],
        "ProcedureRequest",
        id="a definition",
    ),
]


@pytest.mark.parametrize(("type_name", "stu3", "r4"), RULES)
def test_real_differences(type_name: str, stu3: dict[str, Any], r4: dict[str, Any]) -> None:
    """C-249, C-432: what STU3 says by some elements R4 says by others, and nothing is left over."""
    old, new = whole(type_name, STU3, stu3), whole(type_name, R4, r4)
    assert (defects(old, STU3), defects(new, R4)) == ((), ())
    assert to_stored(copy.deepcopy(old), STU3) == new
    assert convert(new, Direction.TO_STU3) == old


@pytest.mark.parametrize("definition", [{"reference": "two words"}, {"display": "a form"}])
def test_references_that_are_no_address(definition: dict[str, Any]) -> None:
    """C-112: what R4 could not take for the address of a definition stands beside it, and comes back."""
    answers = whole("QuestionnaireResponse", STU3, {"questionnaire": definition})
    order = whole("RequestGroup", STU3, {"definition": [{"reference": "PlanDefinition/d"}, definition]})
    for resource in (answers, order):
        made = convert(resource, Direction.TO_R4)
        assert {"questionnaire", "instantiatesCanonical"}.isdisjoint(made)
        assert (defects(resource, STU3), defects(made, R4)) == ((), ())
        assert convert(made, Direction.TO_STU3) == resource


@pytest.mark.parametrize(("type_name", "r4", "place", "wanted"), SHOWN)
def test_what_stu3_shows(type_name: str, r4: dict[str, Any], place: list[Any], wanted: Any) -> None:
    """C-249: of what it cannot say it shows what it can; unchanged it comes back whole, and a change of it counts."""
    new = whole(type_name, R4, r4)
    shown = convert(new, Direction.TO_STU3)
    assert defects(shown, STU3) == ()
    holder: Any = shown
    for step in place[:-1]:
        holder = holder[step]
    assert holder[place[-1]] == wanted
    assert convert(shown, Direction.TO_R4) == new
    del holder[place[-1]]
    assert convert(shown, Direction.TO_R4) != new


@pytest.mark.parametrize("version", FhirVersion)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_no_element_is_lost(version: FhirVersion, data: st.DataObject) -> None:
    """C-112: whatever elements one of these has, it is valid in the other version, and comes back the same."""
    resource = data.draw(resources(data.draw(st.sampled_from(TYPES)), version))
    assert defects(resource, version) == ()
    other = convert(resource, THERE[version])
    assert defects(other, THERE[version].target) == ()
    assert convert(other, BACK[version]) == resource


def test_a_language_that_r4_does_not_have() -> None:
    """An expression of STU3 may be in any language; R4 has three, and keeps what is in another one aside."""
    value = {"resourceType": "ActivityDefinition", "status": "active", "dynamicValue": [{"language": "a", "path": "x"}]}
    made = convert(value, Direction.TO_R4)
    assert defects(made, FhirVersion.R4) == ()
    assert convert(made, Direction.TO_STU3) == value
