"""JSON Patch (RFC 6902) by the library `jsonpatch`: all operations are applied, or none."""

from copy import deepcopy
from typing import Final

from jsonpatch import JsonPatch, JsonPatchException, JsonPatchTestFailed
from jsonpointer import JsonPointer, JsonPointerException

from engine.fhir.json import Json, JsonObject
from engine.interchange.kernel.exact import too_deep
from engine.interchange.kernel.outcome import Category, RefusedError, refuse

MOST: Final = 1_000
# Values that all copies of a patch may hold: each could double what is there.
MOST_COPIED: Final = 100_000
# The member that each operation needs in addition to its path.
NEEDED: Final = {"add": "value", "replace": "value", "test": "value", "move": "from", "copy": "from"}


def patched(document: JsonObject, patch: Json) -> Json:
    """Return a value as a patch changes it; the value itself is left as it is.

    RefusedError 400 for what is no patch, or makes more than a resource may be; 409 where a `test` fails; 422 for a
    place that does not exist.
    """
    if not isinstance(patch, list) or len(patch) > MOST:
        raise refuse(Category.STRUCTURE, f"The body is no list of at most {MOST} operations.", location="http.body")
    operations = [_operation(step, f"http.body[{number}]") for number, step in enumerate(patch)]
    made, room = deepcopy(document), MOST_COPIED
    for number, (operation, step) in enumerate(zip(operations, patch, strict=True)):
        try:
            if step["op"] == "copy":
                room -= _count(JsonPointer(step["from"]).resolve(made), room)
            made = made if room < 0 else operation.apply(made, in_place=True)
        except (JsonPatchException, JsonPointerException, RecursionError) as error:
            raise _failed(error, step, f"http.body[{number}]", _known(document, step["path"])) from error
        if room < 0:
            raise refuse(Category.TOO_COSTLY, "The patch copies too much.", location=f"http.body[{number}]")
    if too_deep(made):
        raise refuse(Category.STRUCTURE, "The patch makes too many levels.", location="http.body")
    return made


def _operation(step: Json, where: str) -> JsonPatch:
    """Return one operation; RefusedError for anything else."""
    if not isinstance(step, dict) or step.get("op") not in [*JsonPatch.operations]:
        text = f"op must be one of: {', '.join(sorted(JsonPatch.operations))}."
        raise refuse(Category.BAD_VALUE, text, location=f"{where}.op")
    for name in ("path", NEEDED.get(step["op"], "path")):
        if name not in step:
            raise refuse(Category.REQUIRED, f"{step['op']} needs {name}.", location=f"{where}.{name}")
        try:
            # A value may be anything; the rest are pointers (RFC 6901).
            JsonPointer("" if name == "value" else step[name])
        except (JsonPointerException, TypeError) as error:
            raise refuse(Category.BAD_VALUE, f"{name} is no JSON Pointer.", location=f"{where}.{name}") from error
    return JsonPatch([step])


def _failed(error: Exception, step: JsonObject, where: str, place: str) -> RefusedError:
    what = f"{step['op']} {place}".strip()
    if isinstance(error, RecursionError):
        return refuse(Category.STRUCTURE, "The patch makes too many levels.", location=where)
    if isinstance(error, JsonPatchTestFailed):
        return refuse(Category.CONFLICT, f"{what}: the value tested for is not there.", location=f"{where}.path")
    return refuse(Category.INVALID, f"{what}: there is no such place, or none for this.", location=where)


def _known(document: JsonObject, path: str) -> str:
    """Return a path as far as the document had it before: what a client wrote beyond that may be a patient's."""
    found, pointer = "", JsonPointer(path)
    try:
        for part in pointer.parts:
            document = pointer.walk(document, part)
            found += f"/{part}"
    except JsonPointerException:
        pass
    return found


def _count(value: Json, most: int) -> int:
    """Return the number of values in a value, itself included; a number above `most` if there are more."""
    waiting, count = [value], 0
    while waiting and count <= most:
        one = waiting.pop()
        count += 1
        waiting.extend(one.values() if isinstance(one, dict) else one if isinstance(one, list) else ())
    return count
