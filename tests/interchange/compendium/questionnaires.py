"""Questionnaires and answers of the tests, written short."""

from typing import Any

Json = dict[str, Any]
WHEN_COLLECTED = "https://cdis.example/fhir/StructureDefinition/questionnaire-requiredwhenspecimen"


def questionnaire(*items: Json, **elements: Any) -> Json:
    """Return an active Questionnaire."""
    return {"resourceType": "Questionnaire", "status": "active", **elements, "item": list(items)}


def item(link_id: str, kind: str = "string", *items: Json, **elements: Any) -> Json:
    """Return an item of a Questionnaire."""
    return {"linkId": link_id, "type": kind, **({"item": list(items)} if items else {}), **elements}


def when(question: str, operator: str = "=", **answer: Any) -> Json:
    """Return a condition of enableWhen."""
    return {"question": question, "operator": operator, **answer}


def response(*items: Json) -> Json:
    """Return a response."""
    return {"resourceType": "QuestionnaireResponse", "status": "completed", "item": list(items)}


def part(link_id: str, *items: Json) -> Json:
    """Return an item of a response that has items and no answer."""
    return {"linkId": link_id, "item": list(items)}


def answered(link_id: str, *items: Json, **value: Any) -> Json:
    """Return an item of a response with one answer, below which items may stand."""
    return {"linkId": link_id, "answer": [{**value, **({"item": list(items)} if items else {})}]}
