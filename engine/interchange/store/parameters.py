"""The `Parameters` body of an operation: the query that would say the same, and the resource that it carries."""

from typing import Final

from engine.fhir.json import Json, JsonObject
from engine.interchange.kernel.outcome import Category, RefusedError, refuse
from engine.interchange.store.search.page import Pairs

WORDS: Final = {True: "true", False: "false"}


def as_query(body: Json) -> Pairs:
    """Return the parameters of a body as name and text; RefusedError (400) for one that is no simple value."""
    return tuple((_name(parameter), _text(parameter)) for parameter in _parameters(body))


def carried(body: Json) -> Json:
    """Return the resource that a `Parameters` carries as its parameter `resource`; any other body is that itself.

    RefusedError (400) for a `Parameters` without such a parameter, or with several.
    """
    if not _is_parameters(body):
        return body
    found = [one["resource"] for one in _parameters(body) if _name(one) == "resource" and "resource" in one]
    if len(found) != 1:
        raise _bad("Send the resource, or Parameters with one parameter named resource.")
    resource: Json = found[0]
    return resource


def _is_parameters(body: Json) -> bool:
    return isinstance(body, dict) and body.get("resourceType") == "Parameters"


def _parameters(body: Json) -> list[JsonObject]:
    found = body.get("parameter", []) if isinstance(body, dict) and body.get("resourceType") == "Parameters" else None
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise _bad("Send a Parameters resource.")
    return found


def _name(parameter: JsonObject) -> str:
    name = parameter.get("name")
    if not isinstance(name, str):
        raise _bad("Each parameter has a name.")
    return name


def _text(parameter: JsonObject) -> str:
    values = [value for name, value in parameter.items() if name.startswith("value")]
    if len(values) != 1 or not isinstance(values[0], str | int | float):
        raise _bad("Each parameter has one simple value, such as valueDate, valueInteger or valueString.")
    return WORDS[values[0]] if isinstance(values[0], bool) else str(values[0])


def _bad(text: str) -> RefusedError:
    return refuse(Category.BAD_VALUE, text, location="Parameters.parameter")
