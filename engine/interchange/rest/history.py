"""Former versions: vread, the history of a resource and of a type, newest first, and how long they are kept."""

import asyncio
import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Final, NamedTuple, NoReturn

import orjson

from engine.config.service import Tenant
from engine.fhir.json import Json, JsonObject
from engine.fhir.versions.names import name_in
from engine.interchange.core.exchange import FhirRequest, HttpAnswer, resource_answer, version_headers
from engine.interchange.core.service import Service
from engine.interchange.kernel.exact import write_json
from engine.interchange.kernel.outcome import Category, RefusedError, refuse, unsupported
from engine.interchange.kernel.seal import Payload, seal, unseal
from engine.interchange.kernel.view import to_version
from engine.interchange.rest.resource.catalogue import KEPT
from engine.interchange.rest.resource.context import belongs, outside_compartment
from engine.interchange.rest.resource.precondition import is_known
from engine.interchange.rest.resource.projection import read_projection
from engine.interchange.rest.resource.read import absent, asked_part
from engine.interchange.store.history import (
    HistoryPosition,
    HistorySpan,
    Versions,
    ended_versions,
    first_kept,
    former_version,
    last_unknown,
    take_versions,
    versions_of_one,
    versions_of_type,
)
from engine.interchange.store.search.bundle import address_with
from engine.interchange.store.search.date import EVER, NEVER, read_since
from engine.interchange.store.search.page import FORMAT, PART, Paging, Pairs, take_page
from engine.interchange.store.transaction import StoredVersion, Transaction, VersionMethod, milliseconds

# Versions that one write takes: others wait for no longer than a few milliseconds.
MOST: Final = 200


def kept_since(tenant: Tenant, now: datetime) -> int:
    """Return the moment (milliseconds) since when a version must have been the present one to be kept."""
    keep = tenant.history.keep
    return NEVER if keep == "all" else milliseconds(now - timedelta(days=keep))


async def take_old(service: Service) -> int:
    """Delete the versions of every tenant that are no longer kept, and return how many these were."""
    taken = 0
    for name, tenant in tuple(service.configuration.tenants.items()):
        before_ms = kept_since(tenant, service.clock())
        for type_name in KEPT if before_ms != NEVER else ():
            taken += await _take(service, name, type_name, before_ms)
    return taken


async def _take(service: Service, tenant: str, type_name: str, before_ms: int) -> int:
    """Take a type's versions, found by a reader: the writer only deletes."""
    look = partial(ended_versions, type_name=type_name, before_ms=before_ms, most=MOST)
    taken = 0
    while found := await asyncio.to_thread(service.store.read, tenant, look):
        await service.store.write(tenant, partial(take_versions, numbers=found))
        taken += len(found)
    return taken


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


# Method and status of a request by the change that it made.
REQUESTS: Final = {
    VersionMethod.POST: ("POST", "201"),
    VersionMethod.NEW: ("PUT", "201"),
    VersionMethod.PUT: ("PUT", "200"),
    VersionMethod.PATCH: ("PATCH", "200"),
    VersionMethod.DELETE: ("DELETE", "204"),
}
INCOMPLETE: Final = "history-incomplete"


class HistoryEntry(NamedTuple):
    """One version: the base address asked, the type's name there, what is kept, and its body as that base shows it."""

    base: str
    name: str
    stored: StoredVersion
    body: bytes


def history_bundle(
    bundle_id: str,
    links: list[tuple[str, str]],
    total: int | None,
    entries: list[HistoryEntry],
    first: int,
    system: str,
) -> bytes:
    """Return a Bundle of versions, with a `total` where one is given.

    Where the history begins with a `first` other than 1, its meta says so.
    """
    bundle: JsonObject = {"resourceType": "Bundle", "id": bundle_id}
    if first > 1:
        display = f"Versions before {first} are not kept."
        bundle["meta"] = {"tag": [{"system": f"{system}/outcome", "code": INCOMPLETE, "display": display}]}
    bundle |= {
        "type": "history",
        **({"total": total} if total is not None else {}),
        "link": [{"relation": relation, "url": url} for relation, url in links],
    }
    if entries:
        bundle["entry"] = [_entry(entry) for entry in entries]
    return write_json(bundle)


def _entry(entry: HistoryEntry) -> Json:
    stored = entry.stored
    place = f"{entry.name}/{stored.id}"
    method, status = REQUESTS[_change(stored)]
    made: JsonObject = {"fullUrl": f"{entry.base}/{place}"}
    if entry.body:
        made["resource"] = orjson.Fragment(entry.body)
    made["request"] = {"method": method, "url": entry.name if method == "POST" else place}
    made["response"] = {
        "status": status,
        "etag": f'W/"{stored.version}"',
        "lastModified": stored.updated_at.isoformat(timespec="milliseconds"),
    }
    return made


def _change(stored: StoredVersion) -> VersionMethod:
    change = VersionMethod(stored.change)
    if change is VersionMethod.UNKNOWN:
        return VersionMethod.POST if stored.version == 1 else VersionMethod.PUT
    return change


PAGES: Final = Paging()
SINCE: Final = "_since"
COUNT: Final = "_count"
CURSOR: Final = "_cursor"
# How an answer is written, and what of each version: what the link to the next page keeps.
FORM: Final = FORMAT | PART


@dataclass(frozen=True, slots=True)
class HistoryRequest:
    """A first page of `count` versions made since a moment (milliseconds), or the page that `cursor` leads to.

    `form` are the parameters that the link to the next page keeps.
    """

    since_ms: int
    count: int
    cursor: str | None
    form: Pairs


def read_question(query: Pairs) -> HistoryRequest:
    """Return what a query asks for; RefusedError (400) for what is unknown, repeated or malformed."""
    given: dict[str, str] = {}
    for name, value in query:
        if name not in {SINCE, COUNT, CURSOR, *FORM}:
            raise unsupported(name, "; a history takes _since, _count, _elements and _summary")
        if name in given and name not in FORMAT:
            raise _bad(name, f"{name} is given more than once.")
        given[name] = value
    if CURSOR in given and not given.keys() <= {CURSOR, *FORM}:
        raise _bad(CURSOR, "The link to the next page takes no further parameters; follow it as it was given.")
    page, _ = take_page(tuple(pair for pair in query if pair[0] == COUNT), PAGES)
    count = 0 if given.get("_summary") == "count" else page.count
    form = tuple(pair for pair in query if pair[0] in FORM)
    return HistoryRequest(read_since(given.get(SINCE)), count, given.get(CURSOR), form)


def _bad(name: str, text: str) -> RefusedError:
    return refuse(Category.BAD_VALUE, text, location=f"http.{name}")


START: Final = HistoryPosition(EVER, EVER, EVER)


@dataclass(frozen=True, slots=True)
class HistoryWalk:
    """One walk through a history at one moment: what its links are bound to, and what of the history is kept."""

    service: Service
    request: FhirRequest
    kept_ms: int

    @property
    def bound(self) -> Payload:
        """What the links are signed for: this history and no other."""
        one = self.request
        return ("history", one.principal.tenant, one.version, one.type, one.id)

    def asked(self) -> tuple[HistoryRequest, HistoryPosition | None]:
        """Return what is asked for, and behind which version; RefusedError 400 or 410 for a bad link."""
        question = read_question(self.request.query)
        if question.cursor is None:
            return question, None
        now_ms = milliseconds(self.service.clock())
        secret = self.service.seal_secret
        since, count, *place = map(int, unseal(secret, self.bound, question.cursor, now_ms, f"http.{CURSOR}"))
        return HistoryRequest(since, count, question.cursor, question.form), HistoryPosition(*place)

    def link(self, question: HistoryRequest, last: StoredVersion) -> Pairs:
        """Return the parameters of the link to the page behind a version."""
        place = (question.since_ms, question.count, last.updated_ms, last.key, last.version)
        expires_ms = milliseconds(self.service.clock()) + self.service.configuration.cursor_validity_s * 1000
        cursor = seal(self.service.seal_secret, self.bound, place, expires_ms)
        return ((CURSOR, cursor), *question.form)


async def history_of_one(service: Service, request: FhirRequest) -> HttpAnswer:
    """Answer GET /{type}/{id}/_history: a history Bundle; 404 for what there never was."""
    walk = _walk(service, request)
    question, after = walk.asked()

    def look(transaction: Transaction) -> tuple[Versions, list[StoredVersion], int]:
        present = transaction.get(request.type, request.id)
        if present is None:
            raise absent(request)
        span = HistorySpan(question.since_ms, walk.kept_ms)
        found = versions_of_one(transaction, present, span, question.count, after)
        left = [one for one in found.page if belongs(transaction, request, one)]
        return found, left, first_kept(transaction, present, walk.kept_ms)

    found, left, first = await asyncio.to_thread(service.store.read, request.principal.tenant, look)
    return _answer(walk, question, found, left, f"/{request.id}", first)


async def history_of_type(service: Service, request: FhirRequest) -> HttpAnswer:
    """Answer GET /{type}/_history: a history Bundle of all resources of the type."""
    walk = _walk(service, request)
    question, after = walk.asked()

    def look(transaction: Transaction) -> Versions:
        span = HistorySpan(question.since_ms, walk.kept_ms)
        return versions_of_type(transaction, request.type, span, question.count, after or START)

    found = await asyncio.to_thread(service.store.read, request.principal.tenant, look)
    return _answer(walk, question, found, list(found.page), "", 1)


def _walk(service: Service, request: FhirRequest) -> HistoryWalk:
    return HistoryWalk(service, request, kept_since(service.tenant(request.principal.tenant), service.clock()))


def _answer(
    walk: HistoryWalk, question: HistoryRequest, found: Versions, shows: list[StoredVersion], of: str, first: int
) -> HttpAnswer:
    """Return a page of history with those of its versions that the token `shows`; others are not counted either."""
    request, service = walk.request, walk.service
    name = name_in(request.version, request.type)
    address = f"{request.base}/{name}{of}/_history"
    links = [("self", address_with(address, request.query))]
    if found.more:
        links.append(("next", address_with(address, walk.link(question, found.page[-1]))))
    part = read_projection(question.form, request.type, request.version)
    show = part.shown if part is not None else to_version
    entries = [
        HistoryEntry(request.base, name, one, show(one.body, one.type, request.version) if one.body else b"")
        for one in shows
    ]
    total = found.total if not request.within else None
    system = service.configuration.service_identifier_system
    return HttpAnswer(200, history_bundle(service.new_id(), links, total, entries, first, system))
