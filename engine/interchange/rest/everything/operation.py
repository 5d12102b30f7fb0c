"""Patient/{id}/$everything: the first page takes a snapshot of the chart's keys, the links lead through it."""

import asyncio
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from engine.fhir.versions.names import name_in
from engine.interchange.core.exchange import FhirRequest, HttpAnswer, Interaction, InteractionLevel, RequiredAccess
from engine.interchange.core.service import Service
from engine.interchange.kernel.outcome import Category, refuse
from engine.interchange.kernel.seal import Payload, seal, unseal
from engine.interchange.kernel.view import to_version
from engine.interchange.rest.everything.chart import chart_keys, fitting, records
from engine.interchange.rest.everything.parameters import CURSOR, EverythingRequest, read_question
from engine.interchange.store.continuation import Snapshot, find_snapshot, keep_snapshot, kept_until
from engine.interchange.store.parameters import as_query
from engine.interchange.store.search.bundle import address_with, write_searchset
from engine.interchange.store.search.page import Pairs
from engine.interchange.store.transaction import StoredVersion, Transaction, milliseconds
from engine.interchange.tokens.oauth.role import RoleRule

# Scopes that open a whole chart by themselves; one of a single type does not.
SCOPES: Final = frozenset({"patient.read", "patient360"})


@dataclass(frozen=True, slots=True)
class SnapshotPage:
    """One page of a snapshot: its resources' keys, of at most `count`, and where the next page starts, 0 for none."""

    snapshot: Snapshot
    total: int
    count: int
    own: tuple[int, ...]
    following: int


@dataclass(frozen=True, slots=True)
class Links:
    """Makes and reads the links of one chart's pages; a link leads to this chart only, until its time is over."""

    secret: bytes = field(repr=False)
    bound: Payload
    now_ms: int
    validity_ms: int

    def cursor(self, page: SnapshotPage) -> str:
        """Return what the link to the page after this one carries."""
        payload = (page.snapshot.digest.hex(), page.following, page.count)
        return seal(self.secret, self.bound, payload, self.now_ms + self.validity_ms)

    def follow(self, transaction: Transaction, cursor: str) -> SnapshotPage:
        """Return the page that a link leads to; RefusedError 400 or 410."""
        digest, position, count = unseal(self.secret, self.bound, cursor, self.now_ms, f"http.{CURSOR}")
        snapshot = find_snapshot(transaction, bytes.fromhex(str(digest)))
        if snapshot is None:
            text = "The pages that the link leads to are no longer kept; start again from the first."
            raise refuse(Category.GONE, text, location=f"http.{CURSOR}")
        return _page(transaction, snapshot, snapshot.keys, int(position), int(count))


async def everything(service: Service, request: FhirRequest) -> HttpAnswer:
    """Answer GET /Patient/{id}/$everything: a searchset Bundle; 404, and 410 for a merged-away patient or an old link.

    A thread reads the chart, so that a large one keeps nobody waiting.
    """
    question = read_question(request.query, request.version)
    validity_ms = service.configuration.cursor_validity_s * 1000
    bound = ("everything", request.principal.tenant, request.version, request.id)
    links = Links(service.seal_secret, bound, milliseconds(service.clock()), validity_ms)
    bundle_id = service.new_id()

    def look(transaction: Transaction) -> tuple[bytes, Snapshot | None]:
        patient = find_patient(transaction, request.id)
        page = _asked(transaction, patient, question, links)
        body = _bundle(bundle_id, request, page, records(transaction, patient, page.own), links, question.form)
        lasts = not page.following or kept_until(transaction, page.snapshot) >= links.now_ms + validity_ms
        return body, None if lasts else page.snapshot

    tenant = request.principal.tenant
    body, fleeting = await asyncio.to_thread(service.store.read, tenant, look)
    if fleeting is not None:
        # For twice the time of a link, so that following a chart seldom writes.
        until_ms = links.now_ms + 2 * validity_ms
        await service.store.write(tenant, partial(keep_snapshot, fleeting, links.now_ms, until_ms))
    return HttpAnswer(200, body)


def find_patient(transaction: Transaction, patient_id: str) -> StoredVersion:
    """Return a live patient; RefusedError 404 or 410.

    A merged-away one is refused even in the midst of its pages: what follows is the survivor's, whose chart has more.
    """
    stored = transaction.get("Patient", patient_id)
    if stored is None:
        raise refuse(Category.NOT_FOUND, f"Patient/{patient_id[:64]} does not exist.", location="http.id")
    if stored.deleted:
        raise refuse(Category.DELETED, f"Patient/{stored.id} was deleted.", location="http.id")
    if stored.survivor is not None:
        text = f"Patient/{stored.id} was merged into Patient/{stored.survivor}; ask for the chart of that one."
        raise refuse(Category.DELETED, text, location="http.id", detail="already-merged")
    return stored


def _asked(transaction: Transaction, patient: StoredVersion, question: EverythingRequest, links: Links) -> SnapshotPage:
    if question.cursor is not None:
        return links.follow(transaction, question.cursor)
    keys = chart_keys(transaction, patient, question.wanted)
    return _page(transaction, Snapshot.of(transaction.tenant, patient.key, keys), keys, 0, question.count)


def _page(
    transaction: Transaction, snapshot: Snapshot, keys: tuple[int, ...], position: int, count: int
) -> SnapshotPage:
    own = keys[position : position + count]
    own = own[: fitting(transaction, own)]
    after = position + len(own)
    return SnapshotPage(snapshot, len(keys), count, own, after if count and after < len(keys) else 0)


def _bundle(
    bundle_id: str, request: FhirRequest, page: SnapshotPage, found: list[StoredVersion], links: Links, form: Pairs
) -> bytes:
    address = f"{request.base}/Patient/{request.id}/$everything"
    relations = [("self", address_with(address, request.query))]
    if page.following:
        relations.append(("next", address_with(address, ((CURSOR, links.cursor(page)), *form))))
    resources = [
        (
            f"{request.base}/{name_in(request.version, one.type)}/{one.id}",
            to_version(one.body, one.type, request.version),
        )
        for one in found
    ]
    return write_searchset(bundle_id, relations, page.total, resources)


async def everything_by_post(service: Service, request: FhirRequest) -> HttpAnswer:
    """Answer POST /Patient/{id}/$everything: the parameters of address and body together, as GET takes them."""
    return await everything(service, replace(request, query=(*request.query, *as_query(request.body))))


INTERACTIONS: Final = tuple(
    Interaction(
        "Patient",
        "everything",
        InteractionLevel.INSTANCE,
        method,
        RequiredAccess.READ,
        RoleRule.CHART,
        run,
        operation="$everything",
        flags=SCOPES,
    )
    for method, run in (("GET", everything), ("POST", everything_by_post))
)
