"""Patch of any type: what a JSON Patch makes of the kept version is written as an update of it would be."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from jsonpointer import JsonPointer, JsonPointerException

from engine.fhir.json import Json
from engine.fhir.versions.names import name_in
from engine.interchange.core.exchange import FhirRequest, HttpAnswer
from engine.interchange.core.reply import written_answer
from engine.interchange.core.service import Service
from engine.interchange.kernel.exact import read_resource
from engine.interchange.kernel.outcome import Category, refuse
from engine.interchange.kernel.view import to_version
from engine.interchange.rest.resource.json_patch import patched
from engine.interchange.rest.resource.precondition import parse_expected
from engine.interchange.rest.resource.read import absent, deleted
from engine.interchange.rest.resource.update import Replacement
from engine.interchange.store.transaction import StoredVersion, Transaction, VersionMethod
from engine.interchange.tokens.oauth.rights import may_see

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
