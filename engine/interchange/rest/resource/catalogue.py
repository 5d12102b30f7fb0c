"""Every type that is kept, one line of facts each (orders too): search parameters, chart, care dates, roles."""

from dataclasses import replace
from itertools import chain
from typing import Final

from engine.fhir.versions.addresses import IN_R4, TABLES
from engine.interchange.rest.patient.index import PATIENT, index_patient
from engine.interchange.rest.resource.definition import (
    CATEGORY,
    CODE,
    DIRECTORY_PAGES,
    ENCOUNTER,
    IDENTIFIER,
    PERFORMERS,
    STATUS,
    SUBSCRIBING,
    TYPE,
    Definition,
    address,
    billing,
    chart,
    code,
    date,
    directory,
    named,
    number,
    patient,
    text,
    to,
    uri,
)
from engine.interchange.rest.resource.rows import indexer
from engine.interchange.store.indexing import digest
from engine.interchange.store.search.criterion import Parameter, ParameterKind, Rank
from engine.interchange.store.search.date import READING
from engine.interchange.store.transaction import Indexer
from engine.interchange.tokens.role import RoleRule

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


CLINICAL_STATUS: Final = Parameter("clinical-status", ParameterKind.TOKEN, "", Rank.MOST, ("clinicalStatus",))
# Prefixes that DocumentReference accepts as synonyms (specification, generic search rule 4).
LENIENT: Final = (("ne", "eq"), ("sa", "ge"), ("eb", "le"))


def _lenient(definition: Definition) -> Definition:
    """Return a type whose dates accept prefixes as synonyms."""
    dates = {ParameterKind.DATE, ParameterKind.UPDATED}
    own = (replace(one, prefixes=LENIENT) if one.kind in dates else one for one in definition.parameters)
    return replace(definition, parameters=tuple(own))


# In the order in which $everything returns them.
CHART: Final = (
    chart(
        "Encounter",
        "subject",
        ("period",),
        date("period"),
        TYPE,
        STATUS,
        code("class", "class"),
        code("discharge-disposition", "hospitalization.dischargeDisposition"),
        to("location", "Location", element="location.location", rank=Rank.SOME),
        to("participant", *PERFORMERS, element="participant.individual", rank=Rank.SOME),
        to("service-provider", "Organization", element="serviceProvider", rank=Rank.MANY),
        to("part-of", "Encounter", element="partOf"),
    ),
    chart(
        "Condition",
        "subject",
        ("onset[x]", "recordedDate"),
        CODE,
        ENCOUNTER,
        CATEGORY,
        CLINICAL_STATUS,
        date("onset[x]", name="onset-date"),
        date("abatement[x]", name="abatement-date"),
        replace(date("recordedDate", name="recorded-date"), stu3="asserted-date"),
    ),
    chart(
        "Observation",
        "subject",
        ("effective[x]", "issued"),
        CATEGORY,
        CODE,
        date("effective[x]"),
        ENCOUNTER,
        STATUS,
        to("performer", *PERFORMERS, rank=Rank.SOME),
        to("based-on", "ServiceRequest", "RequestGroup", element="basedOn"),
    ),
    chart(
        "MedicationRequest",
        "subject",
        ("authoredOn",),
        STATUS,
        code("intent", "intent", Rank.MOST),
        date("authoredOn", name="authoredon"),
        ENCOUNTER,
        to("requester", *PERFORMERS, rank=Rank.SOME),
        creating=RoleRule.PRESCRIBE,
        statuses=frozenset({"active", "completed"}),
    ),
    chart(
        "MedicationStatement", "subject", ("effective[x]", "dateAsserted"), replace(ENCOUNTER, elements=("context",))
    ),
    chart("AllergyIntolerance", "patient", ("onset[x]", "recordedDate"), CODE, CLINICAL_STATUS),
    chart(
        "DiagnosticReport",
        "subject",
        ("effective[x]", "issued"),
        to("based-on", "ServiceRequest", "RequestGroup", element="basedOn"),
        CATEGORY,
        CODE,
        date("effective[x]"),
        ENCOUNTER,
        STATUS,
        to("result", "Observation"),
        to("performer", *PERFORMERS, rank=Rank.SOME),
        scoped=False,
    ),
    chart("Immunization", "patient", ("occurrence[x]", "recorded"), date("occurrence[x]"), STATUS),
    chart("Procedure", "subject", ("performed[x]",), ENCOUNTER, CODE, date("performed[x]"), STATUS),
    chart("CarePlan", "subject", ("period", "created"), CATEGORY, date("period"), STATUS),
    chart(
        "Goal",
        "subject",
        ("start[x]", "statusDate"),
        replace(code("lifecycle-status", "lifecycleStatus", Rank.MOST), stu3="status"),
        date("target.due[x]", name="target-date"),
        code("description", "description", Rank.SOME),
    ),
    chart(
        "ServiceRequest",
        "subject",
        ("occurrence[x]", "authoredOn"),
        CATEGORY,
        STATUS,
        CODE,
        date("authoredOn", name="authored"),
        ENCOUNTER,
        to("requester", *PERFORMERS, rank=Rank.SOME),
        to("performer", *PERFORMERS, rank=Rank.SOME),
        to("based-on", "ServiceRequest", "CarePlan", "MedicationRequest", element="basedOn"),
        number("requisition", "requisition"),
    ),
    billing("Coverage", "beneficiary", patient("beneficiary", "beneficiary"), charted=True, care=("period",)),
    _lenient(
        chart(
            "DocumentReference",
            "subject",
            ("context.period", "date"),
            replace(IDENTIFIER, elements=("masterIdentifier", "identifier")),
            replace(CATEGORY, stu3="class"),
            to("custodian", "Organization", rank=Rank.SOME),
            replace(date("date"), repeatable=True),
            date("context.period", name="period"),
            to("encounter", "Encounter", element="context.encounter"),
            to("author", *PERFORMERS, rank=Rank.SOME),
            TYPE,
            STATUS,
            scoped=False,
        )
    ),
    chart("FamilyMemberHistory", "patient", ("date",)),
)
ORGANIZATION: Final = directory(
    "Organization",
    text("name", "name", "alias"),
    TYPE,
    *address(),
    to("partof", "Organization", element="partOf"),
    Parameter(
        "ordering-enabled",
        ParameterKind.TOKEN,
        "",
        Rank.MANY,
        ("extension(organization-orderingEnabled).value[x]",),
        default="false",
        codes=("true", "false"),
    ),
    paging=DIRECTORY_PAGES,
)
SUPPORTING: Final = (
    directory(
        "Practitioner",
        text("family", "name.family"),
        text("given", "name.given"),
        replace(text("name", "name.text", "name.prefix", "name.suffix"), also=("family", "given")),
    ),
    ORGANIZATION,
    directory(
        "Location",
        text("name", "name", "alias"),
        *address(),
        to("organization", "Organization", element="managingOrganization", rank=Rank.SOME),
        to("partof", "Location", element="partOf"),
    ),
)
OTHERS: Final = (
    directory(
        "PractitionerRole",
        to("practitioner", "Practitioner"),
        to("organization", "Organization", rank=Rank.SOME),
        to("location", "Location", rank=Rank.SOME),
        code("specialty", "specialty"),
    ),
    billing("RelatedPerson", "patient", text("name", "name.family", "name.given", "name.text")),
    billing("Account", "subject"),
    Definition(
        "Binary",
        named("Binary", (patient("securityContext"),)),
        reading=RoleRule.CHART,
        writing=RoleRule.CLINICAL,
        creating=RoleRule.CLINICAL,
        patient="securityContext",
    ),
    Definition(
        "Provenance",
        named(
            "Provenance",
            (
                patient("target"),
                Parameter("target", ParameterKind.REFERENCE, "", Rank.ONE, ("target",), targets=("Patient",)),
            ),
        ),
        reading=RoleRule.CHART,
        writing=RoleRule.CLINICAL,
        creating=RoleRule.CLINICAL,
    ),
)
# A roster names patients of many charts, and is in none of them.
GROUP: Final = "Group"
ROSTER: Final = Definition(
    GROUP,
    named(
        GROUP,
        (
            IDENTIFIER,
            to("member", "Patient", "Practitioner", "PractitionerRole", element="member.entity", rank=Rank.SOME),
            text("name", "name"),
            CODE,
            TYPE,
            code("actual", "actual", Rank.MOST),
        ),
    ),
    reading=RoleRule.CHART,
    writing=RoleRule.CLINICAL,
    creating=RoleRule.CLINICAL,
)
KEPT: Final = {one.name: one for one in (PATIENT, *CHART, *SUPPORTING, *OTHERS, *ORDERING, SUBSCRIBING, ROSTER)}
INDEXERS: Final[dict[str, Indexer]] = {
    **{name: indexer(definition) for name, definition in KEPT.items()},
    "Patient": index_patient,
}


# The edition of all index rows: a database with rows of another edition is indexed again.
EDITION: Final = digest(
    chain(
        (READING,),
        (
            f"{parameter.kind} {parameter.rows} {parameter.elements} {parameter.system} {parameter.default}"
            for own in KEPT.values()
            for parameter in own.parameters
        ),
        (f"{stu3} {r4}" for stu3, r4 in (*TABLES, *IN_R4.items())),
    )
)
