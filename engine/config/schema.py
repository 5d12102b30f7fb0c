"""JSON Schemas of the files that sites write, made of the models that read them: for editors."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import orjson
from pydantic import BaseModel

from engine.config.alerting import Alerting
from engine.config.channel import Channel
from engine.config.service import ServiceConfiguration
from engine.config.sites import Sites

JsonSchema = dict[str, Any]

EDITOR: Final = "# yaml-language-server: $schema="
DRAFT: Final = "http://json-schema.org/draft-07/schema#"
# By the folder of what a schema describes; the schema is in its `schema/NAME.json`.
CHANNEL_FILES: Final[Mapping[str, type[BaseModel]]] = {"channel": Channel, "alerts": Alerting, "sites": Sites}
SERVICE_FILES: Final[Mapping[str, type[BaseModel]]] = {"interchange": ServiceConfiguration}


def patterned(pattern: str, expected: str) -> JsonSchema:
    """Return a schema's pattern with what an editor says of a text that does not match, in place of the pattern.

    `patternErrorMessage` is read by VS Code and by the language server of YAML, `errorMessage` by the latter for values
    of another type, too.
    """
    return {"pattern": pattern, "patternErrorMessage": expected, "errorMessage": expected}


# To the engine every plain scalar is a text, which it reads as its key asks; an editor has read it already.
_SCALARS: Final[Mapping[str, JsonSchema]] = {
    "string": {"type": ["string", "number", "boolean"]},
    "integer": {"type": ["integer", "string"], **patterned(r"^[+-]?\d+$", "Expected a whole number, such as 30.")},
    "number": {
        "type": ["number", "string"],
        **patterned(r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$", "Expected a number, such as 30 or 0.5."),
    },
    "boolean": {"enum": [True, False, "true", "false", "yes", "no", "on", "off"]},
}
_BELOW: Final = ("properties", "definitions")
# What pydantic makes of names and types for programs; `examples` are what mends a mistake.
_LEFT_OUT: Final = frozenset({"title", "examples", "format"})


def schemas(models: Mapping[str, type[BaseModel]]) -> dict[str, JsonSchema]:
    """Return the schema of each kind of file."""
    return {name: _schema(model) for name, model in models.items()}


def editor_line(kind: str) -> str:
    """Return the line by which an editor finds the schema of a file next to the folder of schemas."""
    return f"{EDITOR}schema/{kind}.json"


def schema_text(schema: JsonSchema) -> str:
    """Return a schema as JSON, one definition a line, so that versions of it can be compared."""
    lines = []
    for key, part in schema.items():
        if key == "definitions":
            inner = ",\n".join(f"{_json(name)}: {_json(one)}" for name, one in part.items())
            lines.append(f"{_json(key)}: {{\n{inner}\n}}")
        else:
            lines.append(f"{_json(key)}: {_json(part)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def write_schemas(found: Mapping[str, JsonSchema], folder: Path) -> None:
    """Write each schema into a folder, which is made, as `NAME.json`."""
    folder.mkdir(parents=True, exist_ok=True)
    for kind, one in found.items():
        (folder / f"{kind}.json").write_text(schema_text(one), "utf-8")


def _json(part: Any) -> str:
    return orjson.dumps(part).decode()


def _schema(model: type[BaseModel]) -> JsonSchema:
    made = model.model_json_schema(ref_template="#/definitions/{model}")
    title = made.pop("description").partition("\n")[0]
    definitions = made.pop("$defs", {})
    descriptions = {f"#/definitions/{name}": one.get("description", "") for name, one in definitions.items()}
    whole = _for_editors({**made, "definitions": dict(sorted(definitions.items()))}, descriptions)
    return {"$schema": DRAFT, "title": title, **whole}


def _for_editors(node: JsonSchema, descriptions: Mapping[str, str]) -> JsonSchema:
    """Return a part of a schema as an editor needs it: scalars as YAML has them, a description of each key."""
    made: JsonSchema = {}
    for key, part in node.items():
        if key in _BELOW:
            made[key] = {name: _for_editors(one, descriptions) for name, one in part.items()}
        elif key == "default" and (part is None or isinstance(part, dict | list)):
            continue
        elif key not in _LEFT_OUT:
            made[key] = _part(part, descriptions) if key != "enum" else _as_written(part)
    reference = next(filter(None, map(_reference, (node, *node.get("anyOf", ())))), "")
    if reference and "description" not in node:
        made["description"] = descriptions[reference].partition("\n")[0]
    kind = str(made.get("type"))
    is_closed = "enum" in made or "const" in made
    if is_closed or kind in _SCALARS:
        made.pop("type", None)
    return made if is_closed else {**made, **_SCALARS.get(kind, {})}


def _part(part: Any, descriptions: Mapping[str, str]) -> Any:
    if isinstance(part, list):
        parts = [_part(one, descriptions) for one in part]
        return [one for number, one in enumerate(parts) if one not in parts[:number]]
    return _for_editors(part, descriptions) if isinstance(part, dict) else part


def _reference(node: Any) -> str:
    return str(node.get("$ref", "")) if isinstance(node, dict) else ""


def _as_written(values: list[str]) -> list[str | float]:
    """Return the values of a closed set, those that look like numbers (2.4) as numbers, too."""
    return [*values, *(float(value) for value in values if value.replace(".", "", 1).isdigit())]
