"""vread: one version of a resource by its number."""

import re
from typing import Final, NoReturn

from engine.fhir.versions.names import name_in
from engine.interchange.core.exchange import FhirRequest, HttpAnswer
from engine.interchange.core.reply import resource_answer, version_headers
from engine.interchange.core.service import Service
from engine.interchange.kernel.outcome import Category, refuse
from engine.interchange.kernel.view import to_version
from engine.interchange.rest.history.retention import kept_since
from engine.interchange.rest.resource.context import belongs, outside_compartment
from engine.interchange.rest.resource.precondition import is_known
from engine.interchange.rest.resource.read import absent, asked_part
from engine.interchange.store.history import former_version, last_unknown
from engine.interchange.store.transaction import StoredVersion, Transaction, VersionMethod

NUMBER: Final = re.compile(r"[1-9][0-9]{0,17}")


async def vread(service: Service, request: FhirRequest) -> HttpAnswer:
    """Answer GET /{type}/{id}/_history/{vid}: 200, 304, 404, and 410 for a deletion and for what is kept no longer."""
    part = asked_part(request)
    kept_ms = kept_since(service.tenant(request.principal.tenant), service.clock())
    stored = service.store.read(request.principal.tenant, lambda inner: _find(inner, request, kept_ms))
    if stored.change == VersionMethod.DELETE:
        text = f"Version {stored.version} of {_name(request)} is its deletion."
        raise refuse(Category.DELETED, text, location="http.vid")
    if is_known(request, stored):
        return HttpAnswer(304, b"", version_headers(stored))
    return resource_answer(stored, request, part.shown if part is not None else to_version)


def _find(transaction: Transaction, request: FhirRequest, kept_ms: int) -> StoredVersion:
    present = transaction.get(request.type, request.id)
    if present is None:
        raise absent(request)
    if request.vid == str(present.version):
        return present
    number = int(request.vid) if NUMBER.fullmatch(request.vid) else 0
    if not 0 < number < present.version:
        raise refuse(Category.NOT_FOUND, f"{_name(request)} has no such version.", location="http.vid")
    former = former_version(transaction, present, number, kept_ms) or _missing(transaction, request, present, number)
    if not belongs(transaction, request, former):
        raise outside_compartment()
    return former


def _missing(transaction: Transaction, request: FhirRequest, present: StoredVersion, number: int) -> NoReturn:
    if number <= last_unknown(transaction, present):
        text = f"Version {number} of {_name(request)} is from before versions were kept."
        raise refuse(Category.NOT_FOUND, text, location="http.vid")
    raise refuse(Category.GONE, f"Version {number} of {_name(request)} is kept no longer.", location="http.vid")


def _name(request: FhirRequest) -> str:
    return f"{name_in(request.version, request.type)}/{request.id[:64]}"
