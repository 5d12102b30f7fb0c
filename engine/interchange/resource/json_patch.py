"""JSON Patch (RFC 6902): its six operations on a value, all of them or none."""

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from engine.interchange.outcome import Category, RefusedError, refuse

Json = Any

INDEX: Final = re.compile(r"0|[1-9][0-9]{0,8}")
END: Final = "-"
ESCAPE: Final = re.compile(r"~(?![01])")
MOST: Final = 1_000


def patched(document: Json, patch: Json) -> Json:
    """Return a value as a patch changes it; the value itself is left as it is.

    RefusedError 400 for what is no patch, 409 where a `test` fails, 422 for a place that does not exist.
    """
    if not isinstance(patch, list) or len(patch) > MOST:
        raise refuse(Category.STRUCTURE, f"The body is no list of at most {MOST} operations.", location="http.body")
    whole = {"": _copy(document)}
    for number, step in enumerate(patch):
        where = f"http.body[{number}]"
        if not isinstance(step, dict) or not isinstance(step.get("op"), str) or step["op"] not in OPERATIONS:
            text = f"op must be one of: {', '.join(sorted(OPERATIONS))}."
            raise refuse(Category.BAD_VALUE, text, location=f"{where}.op")
        needed = NEEDED[step["op"]]
        missing = next((name for name in needed if name not in step), None)
        if missing is not None:
            raise refuse(Category.REQUIRED, f"{step['op']} needs {missing}.", location=f"{where}.{missing}")
        OPERATIONS[step["op"]](whole, step, where)
    return whole[""]


def same(one: Json, other: Json) -> bool:
    """Say whether two values are equal as JSON: true is no 1, and the order of members tells nothing."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(value, other[name]) for name, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    numbers = (int, float, Decimal)
    if isinstance(one, numbers) and isinstance(other, numbers):
        return Decimal(str(one)) == Decimal(str(other))
    return type(one) is type(other) and bool(one == other)


def _add(whole: Json, step: Json, where: str) -> None:
    _put(whole, _pointer(step, "path", where), _copy(step["value"]), where)


def _remove(whole: Json, step: Json, where: str) -> None:
    _take(whole, _pointer(step, "path", where), f"{where}.path")


def _replace(whole: Json, step: Json, where: str) -> None:
    *above, last = ["", *_pointer(step, "path", where)]
    holder = _find(whole, above, f"{where}.path")
    holder[_existing(holder, last, f"{where}.path")] = _copy(step["value"])


def _move(whole: Json, step: Json, where: str) -> None:
    source, target = _pointer(step, "from", where), _pointer(step, "path", where)
    if target[: len(source)] == source and target != source:
        raise refuse(Category.BAD_VALUE, "Nothing can be moved into itself.", location=f"{where}.path")
    _put(whole, target, _take(whole, source, f"{where}.from"), where)


def _duplicate(whole: Json, step: Json, where: str) -> None:
    found = _find(whole, ["", *_pointer(step, "from", where)], f"{where}.from")
    _put(whole, _pointer(step, "path", where), _copy(found), where)


def _test(whole: Json, step: Json, where: str) -> None:
    found = _find(whole, ["", *_pointer(step, "path", where)], f"{where}.path", Category.CONFLICT)
    if not same(found, step["value"]):
        raise refuse(Category.CONFLICT, "The value tested for is not there.", location=f"{where}.path")


OPERATIONS: Final[dict[str, Callable[[Json, Json, str], None]]] = {
    "add": _add,
    "remove": _remove,
    "replace": _replace,
    "move": _move,
    "copy": _duplicate,
    "test": _test,
}
NEEDED: Final = {
    "add": ("path", "value"),
    "remove": ("path",),
    "replace": ("path", "value"),
    "move": ("from", "path"),
    "copy": ("from", "path"),
    "test": ("path", "value"),
}


def _pointer(step: Json, name: str, where: str) -> list[str]:
    """Return the names on the way that a JSON Pointer (RFC 6901) tells."""
    text = step[name]
    if not isinstance(text, str) or (text and not text.startswith("/")) or ESCAPE.search(text):
        raise refuse(Category.BAD_VALUE, f"{name} is no JSON Pointer.", location=f"{where}.{name}")
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _find(whole: Json, way: list[str], where: str, category: Category = Category.INVALID) -> Json:
    found = whole
    for name in way:
        found = found[_existing(found, name, where, category)]
    return found


def _existing(holder: Json, name: str, where: str, category: Category = Category.INVALID) -> Any:
    """Return the key of what exists in an object or a list."""
    if isinstance(holder, dict) and name in holder:
        return name
    if isinstance(holder, list) and INDEX.fullmatch(name) and int(name) < len(holder):
        return int(name)
    raise _nowhere(where, category)


def _put(whole: Json, way: list[str], value: Json, where: str) -> None:
    *above, last = ["", *way]
    holder = _find(whole, above, f"{where}.path")
    if isinstance(holder, dict):
        holder[last] = value
    elif isinstance(holder, list) and last == END:
        holder.append(value)
    elif isinstance(holder, list) and INDEX.fullmatch(last) and int(last) <= len(holder):
        holder.insert(int(last), value)
    else:
        raise _nowhere(f"{where}.path", Category.INVALID)


def _take(whole: Json, way: list[str], where: str) -> Json:
    *above, last = ["", *way]
    if not above:
        raise refuse(Category.BAD_VALUE, "A resource cannot be removed by a patch.", location=where)
    holder = _find(whole, above, where)
    return holder.pop(_existing(holder, last, where))


def _nowhere(where: str, category: Category) -> RefusedError:
    return refuse(category, "There is nothing at this place.", location=where)


def _copy(value: Json) -> Json:
    if isinstance(value, dict):
        return {name: _copy(part) for name, part in value.items()}
    return [_copy(part) for part in value] if isinstance(value, list) else value
