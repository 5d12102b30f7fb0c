"""Patient/{id}/$everything: the first page takes a snapshot of the chart's keys, the links lead through it."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlencode

import orjson

from engine.interchange.everything.chart import chart_keys, records
from engine.interchange.everything.continuation import Snapshot, find_snapshot, keep_snapshot, kept_until
from engine.interchange.everything.parameters import CURSOR, Question, read_question
from engine.interchange.exact import write_json
from engine.interchange.exchange import Access, Answer, Interaction, Level, Request
from engine.interchange.oauth.role import Action
from engine.interchange.outcome import Category, refuse
from engine.interchange.search.page import Pairs
from engine.interchange.search.seal import Payload, seal, unseal
from engine.interchange.service import Service
from engine.interchange.store.transaction import Stored, Transaction, milliseconds
from engine.interchange.versions.names import name_in
from engine.interchange.versions.view import shown

Json = Any

# Scopes that open a whole chart by themselves; one of a single type does not (service.md, 4.3).
SCOPES: Final = frozenset({"patient.read", "patient360"})


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a snapshot: from which position on, and for how many resources it has room."""

    snapshot: Snapshot
    keys: tuple[int, ...]
    position: int
    count: int

    @property
    def own(self) -> tuple[int, ...]:
        """The keys on this page."""
        return self.keys[self.position : self.position + self.count]

    @property
    def following(self) -> int:
        """The position of the next page, 0 where this is the last one."""
        after = self.position + self.count
        return after if self.count and after < len(self.keys) else 0


@dataclass(frozen=True, slots=True)
class Links:
    """Makes and reads the links of one chart's pages; a link leads to this chart only, until its time is over."""

    secret: bytes
    bound: Payload
    now_ms: int
    validity_ms: int

    def cursor(self, page: Page) -> str:
        """Return what the link to the page after this one carries."""
        payload = (page.snapshot.digest.hex(), page.following, page.count)
        return seal(self.secret, self.bound, payload, self.now_ms + self.validity_ms)

    def follow(self, transaction: Transaction, cursor: str) -> Page:
        """Return the page that a link leads to; RefusedError 400 or 410."""
        digest, position, count = unseal(self.secret, self.bound, cursor, self.now_ms, f"http.{CURSOR}")
        snapshot = find_snapshot(transaction, bytes.fromhex(str(digest)))
        if snapshot is None:
            text = "The pages that the link leads to are no longer kept; start again from the first."
            raise refuse(Category.GONE, text, location=f"http.{CURSOR}")
        return Page(snapshot, snapshot.keys, int(position), int(count))


async def everything(service: Service, request: Request) -> Answer:
    """Answer GET /Patient/{id}/$everything: a searchset Bundle; 404, and 410 for a merged-away patient or an old link.

    A thread reads the chart, so that a large one keeps nobody waiting.
    """
    question = read_question(request.query, request.version)
    validity_ms = service.configuration.cursor_validity_s * 1000
    bound = ("everything", request.principal.tenant, request.version, request.id)
    links = Links(service.seal_secret, bound, milliseconds(service.clock()), validity_ms)
    bundle_id = service.new_id()

    def look(transaction: Transaction) -> tuple[bytes, Snapshot | None]:
        patient = _patient(transaction, request.id)
        page = _page(transaction, patient, question, links)
        body = _bundle(bundle_id, request, page, records(transaction, patient, page.own), links, question.form)
        lasts = not page.following or kept_until(transaction, page.snapshot) >= links.now_ms + validity_ms
        return body, None if lasts else page.snapshot

    tenant = request.principal.tenant
    body, fleeting = await asyncio.to_thread(service.store.read, tenant, look)
    if fleeting is not None:
        # For twice the time of a link, so that following a chart seldom writes.
        until_ms = links.now_ms + 2 * validity_ms
        await service.store.write(tenant, _keeping(fleeting, links.now_ms, until_ms))
    return Answer(200, body)


def _keeping(snapshot: Snapshot, now_ms: int, until_ms: int) -> Callable[[Transaction], None]:
    return lambda transaction: keep_snapshot(transaction, snapshot, now_ms, until_ms)


def _patient(transaction: Transaction, patient_id: str) -> Stored:
    """Return a live patient.

    A merged-away one is refused even in the midst of its pages: what follows is the survivor's, whose chart has more.
    """
    stored = transaction.get("Patient", patient_id)
    if stored is None:
        raise refuse(Category.NOT_FOUND, f"Patient/{patient_id[:64]} does not exist.", location="http.id")
    if stored.survivor is not None:
        text = f"Patient/{stored.id} was merged into Patient/{stored.survivor}; ask for everything of that one."
        raise refuse(Category.DELETED, text, location="http.id", detail="already-merged")
    return stored


def _page(transaction: Transaction, patient: Stored, question: Question, links: Links) -> Page:
    if question.cursor is not None:
        return links.follow(transaction, question.cursor)
    keys = chart_keys(transaction, patient, question.wanted)
    return Page(Snapshot.of(transaction.tenant, patient.key, keys), keys, 0, question.count)


def _bundle(bundle_id: str, request: Request, page: Page, found: list[Stored], links: Links, form: Pairs) -> bytes:
    address = f"{request.base}/Patient/{request.id}/$everything"
    link = [{"relation": "self", "url": _url(address, request.query)}]
    if page.following:
        link.append({"relation": "next", "url": _url(address, ((CURSOR, links.cursor(page)), *form))})
    entry: list[Json] = [
        {
            "fullUrl": f"{request.base}/{name_in(request.version, one.type)}/{one.id}",
            "resource": orjson.Fragment(shown(one.body, one.type, request.version)),
            "search": {"mode": "match"},
        }
        for one in found
    ]
    bundle = {"resourceType": "Bundle", "id": bundle_id, "type": "searchset", "total": len(page.keys)}
    return write_json({**bundle, "link": link, "entry": entry})


def _url(address: str, pairs: Pairs) -> str:
    return f"{address}?{urlencode(pairs, safe=':,', quote_via=quote)}" if pairs else address


INTERACTION: Final = Interaction(
    "Patient",
    "everything",
    Level.INSTANCE,
    "GET",
    Access.READ,
    Action.CHART,
    everything,
    operation="$everything",
    flags=SCOPES,
)
