"""The lines of the catalogue for orders: what is ordered and by whom, what can be, what was asked and answered."""

from dataclasses import replace
from typing import Final

from engine.interchange.rest.resource.line import (
    CODE,
    ENCOUNTER,
    PERFORMERS,
    STATUS,
    TYPE,
    chart,
    code,
    date,
    directory,
    number,
    text,
    to,
    uri,
)
from engine.interchange.store.search.criterion import Parameter, ParameterKind, Rank

# The service's own status of an order, which is finer than FHIR's.
ORDER_STATUS: Final = "extension(requestgroup-orderStatus).valueCoding"
ORDERING: Final = (
    chart(
        "RequestGroup",
        "subject",
        (),
        replace(STATUS, elements=("status", ORDER_STATUS)),
        number("group-identifier", "groupIdentifier"),
        date("authoredOn", name="authored"),
        to("author", "Practitioner", "Device", rank=Rank.SOME),
        to("performer", "Organization", element="extension(requestgroup-performer).valueReference", rank=Rank.MANY),
        replace(ENCOUNTER, stu3="context"),
        code("intent", "intent", Rank.MOST),
        code("priority", "priority", Rank.MOST),
        CODE,
        scoped=False,
        statuses=frozenset({"active", "draft"}),
    ),
    chart(
        "QuestionnaireResponse",
        "subject",
        (),
        Parameter(
            "questionnaire", ParameterKind.CANONICAL, "", Rank.SOME, ("questionnaire",), targets=("Questionnaire",)
        ),
        STATUS,
        date("authored", name="authored"),
        to("author", *PERFORMERS, "Device", rank=Rank.SOME),
        to("based-on", "ServiceRequest", "CarePlan", element="basedOn"),
        replace(ENCOUNTER, stu3="context"),
        scoped=False,
        charted=False,
    ),
    chart(
        "Specimen",
        "subject",
        (),
        number("accession", "accessionIdentifier"),
        TYPE,
        STATUS,
        date("collection.collected[x]", name="collected"),
        scoped=False,
        charted=False,
    ),
    directory(
        "Questionnaire",
        CODE,
        uri("url"),
        code("version", "version"),
        text("name", "name"),
        text("title", "title"),
        text("publisher", "publisher"),
        STATUS,
    ),
    directory(
        "ActivityDefinition",
        CODE,
        code("topic", "topic"),
        uri("url"),
        code("version", "version"),
        text("name", "name"),
        # Also by a test's synonyms.
        text("title", "title", "extension(activitydefinition-synonym).valueString"),
        text("publisher", "publisher"),
        STATUS,
    ),
)
