"""Patch of any type by JSON Patch (RFC 6902): its result is written as an update would be."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from typing import Any, Final

from jsonpatch import JsonPatch, JsonPatchException, JsonPatchTestFailed
from jsonpointer import JsonPointer, JsonPointerException

from engine.fhir.json import Json, JsonObject
from engine.fhir.versions.names import name_in
from engine.interchange.core.exchange import FhirRequest, HttpAnswer, written_answer
from engine.interchange.core.service import Service
from engine.interchange.kernel.exact import read_resource, too_deep
from engine.interchange.kernel.outcome import Category, RefusedError, refuse
from engine.interchange.kernel.view import to_version
from engine.interchange.rest.resource.precondition import parse_expected
from engine.interchange.rest.resource.read import absent, deleted
from engine.interchange.rest.resource.update import Replacement
from engine.interchange.store.transaction import StoredVersion, Transaction, VersionMethod
from engine.interchange.tokens.role import may_see

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


# Elements that the service sets, and no client changes.
IMMUTABLE: Final = (("resourceType",), ("id",), ("meta", "versionId"), ("meta", "lastUpdated"))


def patching(replacement: Replacement) -> Callable[[Service, FhirRequest], Awaitable[HttpAnswer]]:
    """Return what answers PATCH /{type}/{id}, for a type whose replacement is given."""

    async def patch(service: Service, request: FhirRequest) -> HttpAnswer:
        """200; 404, 410; 409 for a failing test; 412 (STU3: 409) for a stale If-Match; else as an update."""
        expected = parse_expected(request)
        seen = may_see(service.configuration, request.principal, request.type, own=bool(request.within))
        if not seen and _tests(request.body):
            text = "A test reads the value at its path, and the token has no scope for read access to it."
            raise refuse(Category.FORBIDDEN, text, location="http.body")

        def work(transaction: Transaction) -> tuple[int, StoredVersion]:
            stored = transaction.get(request.type, request.id)
            if stored is None:
                raise absent(request)
            if stored.deleted:
                raise deleted(request, stored)
            expected.check(stored, request.version)
            body = _result(request, stored)
            return replacement(service, replace(request, body=body), VersionMethod.PATCH)(transaction)

        status, stored = await service.store.write(request.principal.tenant, work)
        return written_answer(status, stored, request, location=False, seen=seen)

    return patch


def _tests(patch: Json) -> bool:
    return isinstance(patch, list) and any(isinstance(step, dict) and step.get("op") == "test" for step in patch)


def _result(request: FhirRequest, stored: StoredVersion) -> Json:
    """Return the patched resource in the client's version; RefusedError for a change of the service's own elements."""
    before = read_resource(to_version(stored.body, stored.type, request.version))
    after = patched(before, request.body)
    _drop_emptied(after, request.body)
    if not isinstance(after, dict):
        raise refuse(Category.STRUCTURE, "The patch leaves no resource.", location="http.body")
    for way in IMMUTABLE:
        if _at(before, way) != _at(after, way):
            text = f"{'.'.join(way)} cannot be changed by a patch."
            raise refuse(Category.RULE, text, location=f"{name_in(request.version, stored.type)}.{'.'.join(way)}")
    return after


def _drop_emptied(made: Json, patch: Any) -> None:
    """Take away the lists that a patch emptied: FHIR has no empty ones, and so the last of a list can be removed."""
    for step in patch:
        source = {"remove": "path", "move": "from"}.get(step["op"])
        way = JsonPointer(step[source]).parts[:-1] if source else []
        with suppress(JsonPointerException):
            holder = JsonPointer.from_parts(way[:-1]).resolve(made)
            if way and isinstance(holder, dict) and holder.get(way[-1]) == []:
                holder.pop(way[-1])


def _at(resource: Json, way: tuple[str, ...]) -> Json:
    for name in way:
        resource = resource.get(name) if isinstance(resource, dict) else None
    return resource
