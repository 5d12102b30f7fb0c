"""Patient/{id}/$everything: a snapshot of the chart's keys, answered page by page."""

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate
from typing import Final

from engine.fhir.schema import FhirVersion, resource_types
from engine.fhir.versions.names import name_in, r4_name
from engine.interchange.core.exchange import FhirRequest, HttpAnswer, Interaction, InteractionLevel, RequiredAccess
from engine.interchange.core.service import Service
from engine.interchange.kernel.outcome import Category, RefusedError, refuse
from engine.interchange.kernel.seal import Payload, seal, unseal
from engine.interchange.kernel.view import to_version
from engine.interchange.rest.resource.catalogue import CHART, SUPPORTING
from engine.interchange.rest.resource.definition import CARE
from engine.interchange.store.continuation import Snapshot, find_snapshot, keep_snapshot, kept_until
from engine.interchange.store.parameters import as_query
from engine.interchange.store.query import MOST_BYTES
from engine.interchange.store.search.bundle import address_with, write_searchset
from engine.interchange.store.search.date import EVER, NEVER, Span, read_since, span
from engine.interchange.store.search.page import FORMAT, Paging, Pairs, take_page
from engine.interchange.store.transaction import StoredVersion, Transaction, milliseconds
from engine.interchange.tokens.role import RoleRule

PAGES: Final = Paging(most=500, usual=100)
FILTERS: Final = ("_type", "start", "end", "_since", "_count")
CURSOR: Final = "_cursor"
REPEATABLE: Final = frozenset({"_type", *FORMAT})

RETURNED: Final = ("Patient", *(one.name for one in (*CHART, *SUPPORTING)))
DAY: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")

Given = Mapping[str, list[str]]


@dataclass(frozen=True, slots=True)
class ChartPart:
    """The part of a chart that is asked for.

    `types` by their names in R4; `first_ms` and `last_ms` bound the care, inclusive; only what was changed after
    `since_ms` is wanted. Milliseconds since 1970, UTC.
    """

    types: frozenset[str] = frozenset(RETURNED)
    first_ms: int = NEVER
    last_ms: int = EVER
    since_ms: int = NEVER


@dataclass(frozen=True, slots=True)
class EverythingRequest:
    """A request for $everything: a first page of `count` resources, or the page that `cursor` leads to (None: none).

    `form` are the parameters that the link to the next page keeps.
    """

    wanted: ChartPart
    count: int
    cursor: str | None
    form: Pairs


def read_question(query: Pairs, version: FhirVersion) -> EverythingRequest:
    """Return what a query asks for; RefusedError (400) for what is unknown, repeated or malformed."""
    given = {name: [value for other, value in query if other == name] for name, _ in query}
    _check_names(given)
    page, _ = take_page(tuple(pair for pair in query if pair[0] == "_count"), PAGES)
    first_ms, _ = _day(given, "start")
    _, last_ms = _day(given, "end")
    if first_ms > last_ms:
        raise _bad("start", "start is after end.")
    since = given["_since"][0] if "_since" in given else None
    wanted = ChartPart(_types(given.get("_type"), version), first_ms, last_ms, read_since(since))
    form = tuple(pair for pair in query if pair[0] in FORMAT)
    return EverythingRequest(wanted, page.count, given[CURSOR][0] if CURSOR in given else None, form)


def _check_names(given: Given) -> None:
    if not given.keys() <= {*FILTERS, CURSOR, *FORMAT}:
        text = f"$everything takes the parameters {', '.join(FILTERS)} and _format."
        raise refuse(Category.UNSUPPORTED, text, location="http.query")
    for name, values in given.items():
        if len(values) > 1 and name not in REPEATABLE:
            raise _bad(name, f"{name} is given more than once.")
    if CURSOR in given and not given.keys() <= {CURSOR, *FORMAT}:
        raise _bad(CURSOR, "The link to the next page takes no further parameters; follow it as it was given.")


def _types(given: list[str] | None, version: FhirVersion) -> frozenset[str]:
    if given is None:
        return frozenset(RETURNED)
    named = {name for value in given for name in value.split(",")}
    # Those that are returned go by R4's names too: the specification lists them so for both versions.
    if not named <= resource_types(version) | {*RETURNED}:
        raise _bad("_type", f"_type is a list of resource types of {version}.")
    return frozenset(r4_name(name) for name in named) & frozenset(RETURNED)


def _day(given: Given, name: str) -> Span:
    """Return first and last millisecond of a day, UTC; without bounds where none is given."""
    if name not in given:
        return NEVER, EVER
    text = given[name][0]
    at = span(text) if DAY.fullmatch(text) else None
    if at is None:
        raise _bad(name, f"{name} must be a day, YYYY-MM-DD.")
    return at


def _bad(name: str, text: str) -> RefusedError:
    return refuse(Category.BAD_VALUE, text, location=f"http.{name}")


CHART_ROWS: Final = {one.patient_rows: one.name for one in CHART}
CHARTED: Final = frozenset(CHART_ROWS.values())
SUPPORT: Final = tuple(one.name for one in SUPPORTING)
ORDER: Final = ("Patient", *CHART_ROWS.values(), *SUPPORT)

# Names are of this module and of the catalogue; values are always arguments.
IN_CHART: Final = "tenant = ? AND target = ? AND parameter IN ({rows})"
# Care within the days, or without a date: undated care is never hidden.
IN_DAYS: Final = (
    " AND (NOT EXISTS (SELECT 1 FROM date_index AS d WHERE d.key = reference_index.key AND d.parameter = ?)"
    " OR EXISTS (SELECT 1 FROM date_index AS d"
    " WHERE d.key = reference_index.key AND d.parameter = ? AND d.low <= ? AND d.high >= ?))"
)
OWN: Final = "SELECT parameter, key FROM reference_index WHERE {chart}"
CHANGED: Final = " AND (SELECT updated_ms FROM resource WHERE resource.key = reference_index.key) > ?"
SUPPORT_TARGETS: Final = " OR ".join(f"(target > '{name}/' AND target < '{name}0')" for name in SUPPORT)
NAMED: Final = "SELECT DISTINCT target FROM reference_index WHERE {by} AND ({support})"
NAMED_BY_CHART: Final = "key IN (SELECT key FROM reference_index WHERE {chart})"
NAMED_BY_ONE: Final = NAMED.format(by="key = ?", support=SUPPORT_TARGETS)
NAMED_ONE: Final = "SELECT key, updated_ms FROM resource WHERE tenant = ? AND type = ? AND id = ? AND survivor IS NULL"
# A resource that has since moved to another patient, or was deleted, is no longer in this chart.
RECORDS: Final = (
    "SELECT key, type, id, version, updated_ms, survivor, body, EXISTS (SELECT 1 FROM reference_index AS i"
    " WHERE i.key = resource.key AND i.parameter = resource.type || '.patient' AND i.target = ?)"
    " FROM resource WHERE tenant = ? AND survivor IS NULL AND key IN ({keys})"
)
SIZES: Final = "SELECT key, length(body) FROM resource WHERE key IN ({keys})"

Arguments = tuple[str | int, ...]
Keys = dict[str, list[int]]


def chart_keys(transaction: Transaction, patient: StoredVersion, wanted: ChartPart) -> tuple[int, ...]:
    """Return the keys of all that is wanted: the Patient, the chart by type, what these refer to.

    Each type in order of creation. `types` and `since_ms` filter both the care within the days and what it refers to,
    so that a changed directory entry is returned although the care is unchanged.
    """
    found: Keys = {name: [] for name in ORDER}
    if "Patient" in wanted.types and patient.updated_ms > wanted.since_ms:
        found["Patient"].append(patient.key)
    if not wanted.types.isdisjoint(CHARTED):
        _add_chart(found, transaction, patient, wanted)
    if not wanted.types.isdisjoint(SUPPORT):
        _add_support(found, transaction, patient, wanted)
    return tuple(key for keys in found.values() for key in sorted(keys))


def fitting(transaction: Transaction, keys: Sequence[int]) -> int:
    """Return how many of the resources under some keys fit on one page, from the first on; one always does."""
    if len(keys) < 2:
        return len(keys)
    sizes: dict[int, int] = dict(
        transaction.connection.execute(SIZES.format(keys=_marks(keys)), tuple(keys)).fetchall()
    )
    sums = accumulate(sizes.get(key, 0) for key in keys)
    return max(1, sum(size <= MOST_BYTES for size in sums))


def records(transaction: Transaction, patient: StoredVersion, keys: Sequence[int]) -> list[StoredVersion]:
    """Return the resources under some keys, in that order, without those that are no longer of the patient's chart."""
    if not keys:
        return []
    statement = RECORDS.format(keys=_marks(keys))
    target = f"Patient/{patient.id}"
    rows = transaction.connection.execute(statement, (target, transaction.tenant, *keys)).fetchall()
    found = {row[0]: StoredVersion(*row[:-1]) for row in rows if row[-1] or row[1] not in CHARTED}
    return [found[key] for key in keys if key in found]


def chart_condition(tenant: int, patient_id: str, wanted: ChartPart, types: Iterable[str]) -> tuple[str, Arguments]:
    """Return the condition on rows of references that some types of a chart meet, and its arguments."""
    rows = tuple(row for row, name in CHART_ROWS.items() if name in types)
    condition = IN_CHART.format(rows=_marks(rows))
    arguments: Arguments = (tenant, f"Patient/{patient_id}", *rows)
    if (wanted.first_ms, wanted.last_ms) == (NEVER, EVER):
        return condition, arguments
    return condition + IN_DAYS, (*arguments, CARE, CARE, wanted.last_ms, wanted.first_ms)


def _add_chart(found: Keys, transaction: Transaction, patient: StoredVersion, wanted: ChartPart) -> None:
    chart, arguments = chart_condition(transaction.tenant, patient.id, wanted, wanted.types)
    statement = OWN.format(chart=chart)
    if wanted.since_ms != NEVER:
        statement, arguments = statement + CHANGED, (*arguments, wanted.since_ms)
    for parameter, key in transaction.connection.execute(statement, arguments).fetchall():
        found[CHART_ROWS[parameter]].append(key)


def _add_support(found: Keys, transaction: Transaction, patient: StoredVersion, wanted: ChartPart) -> None:
    """Add what the chart refers to, and what that refers to in turn, until nothing new is named."""
    execute = transaction.connection.execute
    chart, arguments = chart_condition(transaction.tenant, patient.id, wanted, CHARTED)
    named_by_chart = NAMED.format(by=NAMED_BY_CHART.format(chart=chart), support=SUPPORT_TARGETS)
    fresh = {row[0] for row in execute(named_by_chart, arguments).fetchall()}
    fresh |= {row[0] for row in execute(NAMED_BY_ONE, (patient.key,)).fetchall()}
    seen: set[str] = set()
    while fresh:
        seen |= fresh
        named: set[str] = set()
        for target in fresh:
            type_name, _, resource_id = target.partition("/")
            row = execute(NAMED_ONE, (transaction.tenant, type_name, resource_id)).fetchone()
            if row is None:
                continue
            if type_name in wanted.types and row[1] > wanted.since_ms:
                found[type_name].append(row[0])
            named |= {one[0] for one in execute(NAMED_BY_ONE, (row[0],)).fetchall()}
        fresh = named - seen


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))


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
