"""The OpenAPI 3.1 document of the Chart API, generated from the tables that serve it."""

from typing import Final

from engine.fhir.json import JsonObject
from engine.interchange.web.chart.category import CATEGORIES, PARTS, ChartCategory
from engine.interchange.web.chart.field import TEXT, ObjectShape, many
from engine.interchange.web.chart.items import CHANNEL
from engine.interchange.web.chart.operation import (
    FARTHEST,
    JSON,
    LIMIT,
    MOST,
    OFFSET,
    PATIENTS,
    SEARCHED,
    SORT,
    SORTED,
    USUAL,
)
from engine.interchange.web.chart.origin import RecordOrigin
from engine.interchange.web.chart.people import FOUND, PATIENT

BASE: Final = "/chart/v1"
VERSION: Final = "1.0.0"
PATIENT_ID: Final = {"name": "id", "in": "path", "required": True, "schema": TEXT, "description": "The patient's id"}
ABOUT: Final = (
    "A patient's record by categories, as plain JSON. It shows what the FHIR API shows to the same token; lists of a"
    " chart are newest first. resourceChannelType says from where a record came: INTERNAL was written here, EXTERNAL"
    " came from other sources or as results of a laboratory, BOTH is known from here and from there."
)
# The meaning of each status but 200; the bodies are OperationOutcomes.
REFUSALS: Final = {
    "400": "A parameter that is unknown, repeated or nonsense",
    "401": "No token, or one that is not active",
    "403": "The token's scopes, its patient or its role do not allow this",
    "404": "There is no such patient",
    "410": "The patient was deleted",
    "429": "Too many calls; Retry-After says when the next may come",
}


def openapi(base_url: str, token_url: str, version: str = VERSION) -> JsonObject:
    """Return the document; `token_url` is the address of the token endpoint."""
    return {
        "openapi": "3.1.0",
        "info": {"title": "Patient Chart API", "version": version, "description": ABOUT},
        "servers": [{"url": f"{base_url}{BASE}"}],
        "security": [{"oauth": []}],
        "paths": {
            f"/{PATIENTS}": _path("findPatients", "Find patients", _searching(), _list(FOUND), ("404", "410")),
            f"/{PATIENTS}/{{id}}": _path("readPatient", "Demographics", [PATIENT_ID], _item(PATIENT)),
            **{f"/{PATIENTS}/{{id}}/{one.path}": _category(one) for one in CATEGORIES},
        },
        "components": {
            "schemas": {one.name: one.schema() for one in (*PARTS, *_items())} | {"OperationOutcome": OUTCOME},
            "securitySchemes": {"oauth": _security(token_url)},
        },
    }


OUTCOME: Final = {"type": "object", "description": "OperationOutcome of FHIR R4", "required": ["resourceType", "issue"]}


def _items() -> tuple[ObjectShape, ...]:
    return FOUND, PATIENT, *(one.shape for one in CATEGORIES)


def _item(shape: ObjectShape) -> JsonObject:
    """Return the schema of an item: its fields, its id and its channel."""
    own = {"id": TEXT, CHANNEL: {"type": "string", "enum": [str(one) for one in RecordOrigin]}}
    return {"allOf": [shape.link, {"type": "object", "properties": own, "required": ["id", CHANNEL]}]}


def _list(shape: ObjectShape) -> JsonObject:
    fields = {"total": {"type": "integer", "minimum": 0}, "items": many(_item(shape))}
    return {"type": "object", "properties": fields, "required": list(fields)}


def _category(one: ChartCategory) -> JsonObject:
    name = "".join(part.capitalize() for part in one.path.replace("/", "-").split("-"))
    return _path(f"list{name}", one.title, [PATIENT_ID, *_part()], _list(one.shape))


def _path(
    name: str, title: str, parameters: list[JsonObject], schema: JsonObject, never: tuple[str, ...] = ()
) -> JsonObject:
    refused = {"application/fhir+json": {"schema": {"$ref": "#/components/schemas/OperationOutcome"}}}
    answers = {"200": {"description": title, "content": {JSON: {"schema": schema}}}} | {
        status: {"description": text, "content": refused} for status, text in REFUSALS.items() if status not in never
    }
    return {"get": {"operationId": name, "summary": title, "parameters": parameters, "responses": answers}}


def _part() -> list[JsonObject]:
    return [
        _query(LIMIT, "How many items at most", {"type": "integer", "minimum": 1, "maximum": MOST, "default": USUAL}),
        _query(OFFSET, "How many to pass by", {"type": "integer", "minimum": 0, "maximum": FARTHEST, "default": 0}),
    ]


def _searching() -> list[JsonObject]:
    order = _query(SORT, "Their order; of creation unless it is given", {**TEXT, "enum": list(SORTED)})
    return [*(_query(name, about, {**TEXT, "minLength": 1}) for name, about in SEARCHED.items()), order, *_part()]


def _query(name: str, about: str, schema: JsonObject) -> JsonObject:
    return {"name": name, "in": "query", "description": about, "schema": schema}


def _security(token_url: str) -> JsonObject:
    scopes = {
        "patient/*.read": "Read whole charts, or that of the token's patient",
        "user/*.*": "Everything that the user may",
        "patient360": "Read whole charts and nothing else",
    }
    oauth = f"{token_url}/oauth"
    code = {"authorizationUrl": f"{oauth}/authorize", "tokenUrl": f"{oauth}/token", "scopes": scopes}
    return {
        "type": "oauth2",
        "flows": {
            "authorizationCode": code,
            "clientCredentials": {"tokenUrl": f"{oauth}/token", "scopes": {"system/*.read": "Read whole charts"}},
        },
    }
