"""Nulls in lists of primitives: they align values with their ids and extensions (FHIR JSON, 2.6.2)."""

from typing import Final

from engine.fhir.json import Json

STAND_IN: Final = {"id": "padding"}


def filled(part: Json) -> Json:
    """Return a part of a resource with a stand-in for each null that pads a list.

    The schemas do not allow these nulls. A null without a counterpart in the other list is not padding and stays.
    """
    if isinstance(part, list):
        return [filled(one) for one in part]
    if not isinstance(part, dict):
        return part
    result = {name: filled(value) for name, value in part.items()}
    for name, value in part.items():
        other = part.get(name[1:] if name[:1] == "_" else f"_{name}")
        items = result[name]
        if isinstance(value, list) and isinstance(other, list) and isinstance(items, list) and None in value:
            items = result[name] = [
                _stand_in(name, value) if one is None and other[index : index + 1] not in ([], [None]) else one
                for index, one in enumerate(items)
            ]
            # Only placeholders: nothing to validate.
            if name[:1] != "_" and value.count(None) == len(value) and None not in items:
                del result[name]
    return result


def _stand_in(name: str, values: list[Json]) -> Json:
    return STAND_IN if name[:1] == "_" else next((one for one in values if one is not None), "")
