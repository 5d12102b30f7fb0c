"""What a laboratory's file becomes: an Organization, and for each test an ActivityDefinition and its Questionnaire."""

from collections.abc import Iterator
from hashlib import sha256
from typing import Final, NamedTuple

from engine.fhir.json import JsonObject
from engine.fhir.primitives import ID
from engine.interchange.kernel.extension import url
from engine.interchange.orders.compendium.files.asking import UCUM, EnableWhen, condition, ids_of, placed_questions
from engine.interchange.orders.compendium.files.authored import (
    AuthoredLaboratory,
    AuthoredQuestion,
    ItemType,
    Required,
    Specimen,
)
from engine.interchange.orders.compendium.files.read import Asking
from engine.interchange.orders.compendium.lookup import ACTIVE, system_of
from engine.interchange.orders.compendium.questionnaire_item import WHEN_COLLECTED

TEST: Final = "ActivityDefinition"
QUESTIONNAIRE: Final = "Questionnaire"
LOINC: Final = "http://loinc.org"
UNIT: Final = "http://hl7.org/fhir/StructureDefinition/questionnaire-unit"
ITEM_CONTROL: Final = "http://hl7.org/fhir/StructureDefinition/questionnaire-itemControl"
HELP_CONTROL: Final = {"coding": [{"system": "http://hl7.org/fhir/questionnaire-item-control", "code": "help"}]}
HASH_DIGITS: Final = 24


class WantedResource(NamedTuple):
    """A resource as the file wants it, without an id: it is known by its type and the code of its test."""

    type: str
    code: str
    resource: JsonObject


def tag(sis: str, laboratory: str) -> dict[str, str]:
    """Return what marks the resources that come from a laboratory's file; `sis` is the service's identifier system."""
    return {"system": f"{sis}/compendium", "code": laboratory}


def ids_for(laboratory: str, code: str) -> tuple[str, str]:
    """Return the id that says whose test it is, where that is a legal one, and the id for when it is taken."""
    digest = sha256(f"{laboratory}|{code}".encode()).hexdigest()[:HASH_DIGITS]
    sure = f"{laboratory[: 63 - HASH_DIGITS]}-{digest}"
    spoken = f"{laboratory}-{code}"
    return (spoken if ID.fullmatch(spoken) else sure), sure


def wanted(asking: Asking, laboratory: AuthoredLaboratory, sis: str) -> Iterator[WantedResource]:
    """Yield the questions of a test, if it asks any, and the test."""
    code = asking.test.code
    if asking.questions:
        yield WantedResource(QUESTIONNAIRE, code, _questionnaire(asking, laboratory, sis))
    yield WantedResource(TEST, code, _definition(asking, laboratory, sis))


def _definition(asking: Asking, laboratory: AuthoredLaboratory, sis: str) -> JsonObject:
    test = asking.test
    codings = [_own_coding(asking, laboratory), *([{"system": LOINC, "code": test.loinc}] if test.loinc else [])]
    specimen = [_specimen(test.specimen, sis)] if test.specimen else []
    synonyms = [{"url": url(sis, "activitydefinition-synonym"), "valueString": synonym} for synonym in test.synonyms]
    return {
        "resourceType": TEST,
        "meta": {"tag": [tag(sis, laboratory.id)]},
        **({"extension": [*synonyms, *specimen]} if synonyms or specimen else {}),
        "title": test.title,
        "status": ACTIVE,
        "publisher": laboratory.name,
        "kind": "ServiceRequest",
        "code": {"coding": codings, "text": test.title},
    }


def _specimen(specimen: Specimen, sis: str) -> JsonObject:
    coding = {"coding": [{"system": specimen.system, "code": specimen.code}]} if specimen.code else {}
    concept = {**coding, "text": specimen.text}
    return {"url": url(sis, "activitydefinition-specimen"), "valueCodeableConcept": concept}


def _own_coding(asking: Asking, laboratory: AuthoredLaboratory) -> dict[str, str]:
    return {"system": system_of(laboratory.id), "code": asking.test.code, "display": asking.test.title}


def _questionnaire(asking: Asking, laboratory: AuthoredLaboratory, sis: str) -> JsonObject:
    known = {one.question.id: one.question for one in placed_questions(asking.questions)}
    return {
        "resourceType": QUESTIONNAIRE,
        "meta": {"tag": [tag(sis, laboratory.id)]},
        "title": asking.test.title,
        "status": ACTIVE,
        "subjectType": ["Patient"],
        "publisher": laboratory.name,
        "code": [_own_coding(asking, laboratory)],
        "item": [_item(question, known, sis) for question in asking.questions],
    }


def _item(question: AuthoredQuestion, known: dict[str, AuthoredQuestion], sis: str) -> JsonObject:
    conditions = [_enable_when(name, text, known) for name, texts in question.when.items() for text in texts]
    alternatives = any(len(texts) > 1 for texts in question.when.values())
    items = [*_help(question), *(_item(item, known, sis) for item in question.items)]
    optional: JsonObject = {
        "extension": _extensions(question, sis),
        "text": question.text,
        "type": question.type.value,
        "enableWhen": conditions,
        "enableBehavior": ("any" if alternatives else "all") if len(conditions) > 1 else "",
        "required": question.required is Required.YES,
        "repeats": question.repeats,
        "maxLength": question.max_length,
        "answerOption": [{"valueCoding": {"code": code, "display": shown}} for code, shown in question.options.items()],
        "item": items,
    }
    said = {name: value for name, value in optional.items() if value not in ([], "", None, False)}
    return {"id": question.id, "linkId": question.id, **said}


def _enable_when(name: str, text: str, known: dict[str, AuthoredQuestion]) -> JsonObject:
    made = condition(known[name], text)
    # Files with a problem are not loaded.
    assert isinstance(made, EnableWhen)  # noqa: S101
    return {"question": name, "operator": made.operator, made.element: made.value}


def _extensions(question: AuthoredQuestion, sis: str) -> list[JsonObject]:
    made: list[JsonObject] = []
    if question.required is Required.WHEN_COLLECTED:
        made.append({"url": sis + "/fhir" + WHEN_COLLECTED, "valueBoolean": True})
    if question.unit:
        made.append({"url": UNIT, "valueCoding": {"system": UCUM, "code": question.unit, "display": question.unit}})
    return made


def _help(question: AuthoredQuestion) -> list[JsonObject]:
    """Return the text that helps with a question as FHIR has it: an item for reading below it."""
    if not question.help:
        return []
    link_id = ids_of(question)[1]
    control = [{"url": ITEM_CONTROL, "valueCodeableConcept": HELP_CONTROL}]
    return [
        {"id": link_id, "linkId": link_id, "extension": control, "text": question.help, "type": ItemType.DISPLAY.value}
    ]
