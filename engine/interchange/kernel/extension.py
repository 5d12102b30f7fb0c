"""The service's own extensions of orders and tests: their addresses and values."""

from typing import Any

from engine.fhir.json import JsonObject


def url(sis: str, name: str) -> str:
    """Return the address of an extension (`requestgroup-performer`); `sis` is the service's identifier system."""
    return f"{sis}/fhir/StructureDefinition/{name}"


def value(resource: JsonObject, sis: str, name: str) -> Any:
    """Return the value of the first extension of a name, of any type; None for none."""
    address = url(sis, name)
    for extension in resource.get("extension", ()):
        if extension.get("url") == address:
            return next((held for key, held in extension.items() if key.startswith("value")), None)
    return None


def with_value(resource: JsonObject, address: str, value_x: JsonObject | None) -> JsonObject:
    """Return a resource with one extension of an address, with `value_x` (`{"valueCoding": ...}`); None: removed."""
    others = [extension for extension in resource.get("extension", ()) if extension.get("url") != address]
    extensions = [*others, {"url": address, **value_x}] if value_x is not None else others
    rest = {name: held for name, held in resource.items() if name != "extension"}
    return {**rest, "extension": extensions} if extensions else rest
