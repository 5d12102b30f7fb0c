"""Where the API offers each operation, and its description (OpenAPI 3.1), made of the operations themselves."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core.core_schema import WithDefaultSchema

from engine import __version__
from engine.ops.access.actor import may
from engine.ops.access.administration import OF_TOKENS
from engine.ops.operations.addresses import ROOT, TABLE
from engine.ops.operations.operation import AnyOperation
from engine.ops.views.answer import Answer

_NAMED: Final = re.compile(r"{(\w+)}")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One operation at one address; a GET takes what the path does not name as parameters, a POST in its body."""

    method: Literal["GET", "POST"]
    path: str
    operation: AnyOperation

    @property
    def in_path(self) -> tuple[str, ...]:
        """The fields that the path names."""
        return tuple(_NAMED.findall(self.path))

    @property
    def others(self) -> tuple[str, ...]:
        """The fields that it does not name."""
        return tuple(name for name in self.operation.names() if name not in self.in_path)


def endpoints(operations: Iterable[AnyOperation]) -> Iterator[Endpoint]:
    """Yield each operation that a token may do, with its address; one that the table does not name is a POST.

    `replays.start` is at /replays/start. Accounts, tokens and the care of the journal are for no token: a person does
    that, at a page or at the terminal.
    """
    for operation in operations:
        if any(may(role, operation.permission) for role in OF_TOKENS):
            method, path = TABLE.get(operation.name, ("POST", "/" + operation.name.replace(".", "/")))
            yield Endpoint(method, path, operation)


_REFUSALS: Final = {
    "400": "the request cannot be read",
    "401": "no token, or one that is no longer valid",
    "403": "not permitted for the token's role",
    "404": "not found",
    "409": "not possible in the current state",
    "413": "more than 1 MiB",
    "415": "not JSON",
    "422": "it cannot be done as asked",
    "503": "not available right now",
}
_REFERENCE: Final = "#/components/schemas/{model}"


class Problem(Answer):
    """An error as programs read it (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str


class _Plain(GenerateJsonSchema):
    """Schemas without titles that say a field's name again, and without defaults that say nothing."""

    def field_title_should_be_set(self, _schema: object) -> bool:
        return False

    def default_schema(self, schema: WithDefaultSchema) -> JsonSchemaValue:
        found = super().default_schema(schema)
        if not isinstance(found.get("default"), str | int | float) or found["default"] == "":
            found.pop("default", None)
        return found


def described(endpoints: Iterable[Endpoint]) -> JsonSchemaValue:
    """Return the description of the API as JSON-able values."""
    offered = tuple(endpoints)
    adapters: list[tuple[str, Literal["validation", "serialization"], TypeAdapter[Any]]] = [
        ("Problem", "serialization", TypeAdapter(Problem))
    ]
    for one in offered:
        adapters.append((f"request {one.operation.name}", "validation", TypeAdapter(one.operation)))
        adapters.append((f"answer {one.operation.name}", "serialization", one.operation.answer()))
    made, definitions = TypeAdapter.json_schemas(adapters, ref_template=_REFERENCE, schema_generator=_Plain)
    schemas = {name: schema for (name, _mode), schema in made.items()}
    components: JsonSchemaValue = definitions["$defs"]
    paths: dict[str, JsonSchemaValue] = {}
    for one in offered:
        request = _whole(schemas[f"request {one.operation.name}"], components)
        described_ = _operation(one, request, schemas[f"answer {one.operation.name}"])
        paths.setdefault(ROOT + one.path, {})[one.method.lower()] = described_
    requests = {one.operation.__name__ for one in offered}
    return {
        "openapi": "3.1.0",
        "info": {"title": "adt-engine", "version": __version__, "summary": "What operators can do, for programs"},
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {name: schema for name, schema in components.items() if name not in requests},
            "responses": {status: _refusal(text) for status, text in _REFUSALS.items()},
        },
    }


def _operation(one: Endpoint, request: JsonSchemaValue, answer: JsonSchemaValue) -> JsonSchemaValue:
    operation, fields, needed = one.operation, request.get("properties", {}), request.get("required", [])
    found: JsonSchemaValue = {
        "operationId": operation.name,
        "summary": operation.summary(),
        "tags": [operation.name.partition(".")[0]],
        "x-permission": str(operation.permission),
        "responses": {
            "200": {"description": "what the operation returns", "content": {"application/json": {"schema": answer}}},
            **{status: {"$ref": f"#/components/responses/{status}"} for status in _REFUSALS},
        },
    }
    asked = one.others if one.method == "GET" else ()
    if one.in_path or asked:
        found["parameters"] = [_parameter(name, "path", fields[name]) for name in one.in_path] + [
            _parameter(name, "query", fields[name]) for name in asked
        ]
    if one.method == "POST":
        body = {"type": "object", "properties": {name: fields[name] for name in one.others}} | {
            "additionalProperties": False
        }
        required = [name for name in needed if name in one.others]
        body |= {"required": required} if required else {}
        found["requestBody"] = {"content": {"application/json": {"schema": body}}}
    return found


def _whole(schema: JsonSchemaValue, components: JsonSchemaValue) -> JsonSchemaValue:
    """Return a schema itself where it is a reference to one."""
    found: JsonSchemaValue = components[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    return found


def _parameter(name: str, place: str, schema: JsonSchemaValue) -> JsonSchemaValue:
    return {"name": name, "in": place, "required": place == "path", "schema": schema}


def _refusal(text: str) -> JsonSchemaValue:
    schema = {"$ref": _REFERENCE.format(model="Problem")}
    return {"description": text, "content": {"application/problem+json": {"schema": schema}}}
