"""History of a resource and of a type: pages of versions, the newest first."""

import asyncio
from dataclasses import dataclass
from typing import Final

from engine.fhir.versions.names import name_in
from engine.interchange.core.exchange import FhirRequest, HttpAnswer
from engine.interchange.core.service import Service
from engine.interchange.kernel.seal import Payload, seal, unseal
from engine.interchange.kernel.view import to_version
from engine.interchange.rest.history.bundle import HistoryEntry, history_bundle
from engine.interchange.rest.history.parameters import CURSOR, HistoryRequest, read_question
from engine.interchange.rest.history.retention import kept_since
from engine.interchange.rest.resource.context import belongs
from engine.interchange.rest.resource.projection import read_projection
from engine.interchange.rest.resource.read import absent
from engine.interchange.store.history import (
    HistoryPosition,
    HistorySpan,
    Versions,
    first_kept,
    versions_of_one,
    versions_of_type,
)
from engine.interchange.store.search.bundle import address_with
from engine.interchange.store.search.date import EVER
from engine.interchange.store.search.page import Pairs
from engine.interchange.store.transaction import StoredVersion, Transaction, milliseconds

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
