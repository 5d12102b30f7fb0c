"""A transaction of the store: read, create, update, retire and delete resources of one tenant."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

from engine import fault
from engine.database.connection import Connection
from engine.fhir.json import JsonObject
from engine.interchange.kernel.exact import read_resource, write_json
from engine.interchange.store.access import MOST_PATIENTS, patients_in
from engine.interchange.store.index import NOTHING, Index, write_index
from engine.interchange.store.search.text import short

Body = JsonObject
Indexer = Callable[[Body], Index]

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

# The order of columns is that of Stored.
BY_ID: Final = (
    "SELECT key, type, id, version, updated_ms, survivor, body, change FROM resource WHERE tenant=? AND type=? AND id=?"
)
SURVIVOR: Final = "SELECT survivor FROM resource WHERE tenant=? AND type=? AND id=?"
BY_KEY: Final = "SELECT key, type, id, version, updated_ms, survivor, body, change FROM resource WHERE key=?"
INSERT: Final = (
    "INSERT INTO resource (tenant, type, id, version, updated_ms, body, change)"
    " VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING key"
)
KEEP: Final = (
    "INSERT INTO version (tenant, type, key, version, updated_ms, ended_ms, change, body)"
    " SELECT tenant, type, key, version, updated_ms, ?, change, body FROM resource WHERE key=?"
)
UPDATE: Final = "UPDATE resource SET version=?, updated_ms=?, survivor=?, body=?, change=? WHERE key=?"
HOLDERS: Final = "SELECT DISTINCT key FROM identifier_index WHERE tenant=? AND parameter=? AND value=? AND system=?"
RECORD_NUMBER_HOLDERS: Final = HOLDERS + " AND record_number=1"
MOVE_IDENTIFIERS: Final = "UPDATE identifier_index SET key=? WHERE key=?"
MOVE_SURVIVOR: Final = "UPDATE resource SET survivor=? WHERE tenant=? AND type=? AND survivor=?"
INHERITED: Final = "SELECT parameter, value FROM identifier_index WHERE key=? AND origin<>key"
# Those of a resource itself, and of the records merged into it.
FREE: Final = "DELETE FROM identifier_index WHERE key=?"
REFERRING: Final = (
    "SELECT DISTINCT resource.key, resource.type FROM reference_index AS i JOIN resource ON resource.key=i.key"
    " WHERE i.tenant=? AND i.target=?"
)
REFERRERS: Final = "SELECT DISTINCT key FROM reference_index WHERE tenant=? AND target=?{rows} ORDER BY key"
COUNT_CODE: Final = "SELECT count(*) FROM token_index WHERE tenant=? AND parameter=? AND code=?"


DELETED: Final = ""


class VersionMethod(StrEnum):
    """What made a version: the method of its request; NEW is a PUT of what did not exist, or was deleted.

    UNKNOWN is what was written before this was kept.
    """

    UNKNOWN = ""
    POST = "POST"
    NEW = "NEW"
    PUT = "PUT"
    PATCH = "PATCH"
    DELETE = "DELETE"


@dataclass(frozen=True, slots=True)
class StoredVersion:
    """One stored version of a resource, by default the present one.

    `survivor` is the id of the record that took its place, '' for a deleted one, whose body is empty, and None for a
    live one. `change` is what made the version, UNKNOWN also where that was not asked for.
    """

    key: int
    type: str
    id: str
    version: int
    updated_ms: int
    survivor: str | None
    body: bytes
    change: str = VersionMethod.UNKNOWN

    @property
    def deleted(self) -> bool:
        """Whether the resource was deleted."""
        return self.survivor == DELETED

    @property
    def updated_at(self) -> datetime:
        """The moment of the last change."""
        return EPOCH + timedelta(milliseconds=self.updated_ms)

    def resource(self) -> Body:
        """Return the resource as a value of its own."""
        value: Body = read_resource(self.body)
        return value


class ReferenceStatus(NamedTuple):
    """The status of a reference's target: its id, and that of its survivor once merged away, '' once deleted."""

    id: str
    survivor: str | None


class Transaction:
    """One tenant's view within one transaction; `at` is the moment that its writes bear.

    `promised` are type and id of resources that this transaction will still create: references may name them.
    `listeners` are notified of its writes. `queued`: whether a write has queued an event for a subscriber.
    """

    def __init__(
        self,
        connection: Connection,
        tenant: int,
        at: datetime,
        indexers: Mapping[str, Indexer],
        listeners: "ChangeListeners | None" = None,
    ) -> None:
        self.connection = connection
        self.tenant = tenant
        self.at = at
        self.promised: frozenset[tuple[str, str]] = frozenset()
        self._indexers = indexers
        self._followers, self._listener = listeners or NOBODY
        self.queued = False
        self._parts: dict[bytes, Index] = {}
        # Patients whose records were written, for the access log: also those of the former versions.
        self.touched: set[str] = set()

    def get(self, type_name: str, resource_id: str) -> StoredVersion | None:
        """Return a resource by its id, merged-away and deleted ones too; None where the tenant never had it."""
        row = self.connection.execute(BY_ID, (self.tenant, type_name, resource_id)).fetchone()
        return StoredVersion(*row) if row else None

    def standing(self, type_name: str, resource_id: str) -> ReferenceStatus | None:
        """Return whether a resource is live, merged away or deleted, without its body; None where there was none."""
        if (type_name, resource_id) in self.promised:
            return ReferenceStatus(resource_id, None)
        row = self.connection.execute(SURVIVOR, (self.tenant, type_name, resource_id)).fetchone()
        return ReferenceStatus(resource_id, row[0]) if row else None

    def by_key(self, key: int) -> StoredVersion:
        """Return a resource by its key."""
        return StoredVersion(*self.connection.execute(BY_KEY, (key,)).fetchone())

    def create(
        self, type_name: str, resource_id: str, resource: Body, change: VersionMethod = VersionMethod.POST
    ) -> StoredVersion:
        """Keep a new resource as version 1."""
        at_ms = milliseconds(self.at)
        body = stamped(resource, resource_id, 1, self.at)
        new = (self.tenant, type_name, resource_id, 1, at_ms, body, change)
        key = int(self.connection.execute(INSERT, new).fetchone()[0])
        fault.point("F27")
        index = self._indexers[type_name](resource)
        write_index(self.connection, self.tenant, key, NOTHING, index)
        self._touch(body)
        stored = StoredVersion(key, type_name, resource_id, 1, at_ms, None, body, change)
        self._notify(stored, None, resource, lambda: index)
        return stored

    def update(self, stored: StoredVersion, resource: Body, change: VersionMethod = VersionMethod.PUT) -> StoredVersion:
        """Keep the next version of a live resource."""
        indexer, former = self._indexers[stored.type], stored.resource()
        before, after = indexer(former), indexer(resource)
        changed = self._write(stored, resource, None, change)
        write_index(self.connection, self.tenant, stored.key, before, after)
        self._notify(changed, former, resource, lambda: after)
        return changed

    def restate(self, stored: StoredVersion, resource: Body, elements: tuple[str, ...]) -> StoredVersion:
        """Keep the next version of a live resource in which at most some elements are others: a status, say.

        Only their index rows are made anew: what else makes the same rows must be among them, and no care date may be.
        """
        former = stored.resource()
        before, after = (self._rows_of(stored.type, one, elements) for one in (former, resource))
        changed = self._write(stored, resource, None, VersionMethod.PUT)
        write_index(self.connection, self.tenant, stored.key, before, after)
        self._notify(changed, former, resource, lambda: self._indexers[stored.type](resource))
        return changed

    def bring_back(self, stored: StoredVersion, resource: Body) -> StoredVersion:
        """Keep the next version of a deleted resource, as if it were new."""
        kept = self._write(stored, resource, None, VersionMethod.NEW)
        index = self._indexers[stored.type](resource)
        write_index(self.connection, self.tenant, stored.key, NOTHING, index)
        self._notify(kept, None, resource, lambda: index)
        return kept

    def delete(self, stored: StoredVersion) -> StoredVersion:
        """Keep a version without a body: no search finds it, and its numbers and those merged into it are free."""
        former = stored.resource()
        write_index(self.connection, self.tenant, stored.key, self._indexers[stored.type](former), NOTHING)
        self.connection.execute(FREE, (stored.key,))
        at_ms = max(milliseconds(self.at), stored.updated_ms)
        deleted = self._succeed(
            stored,
            StoredVersion(
                stored.key, stored.type, stored.id, stored.version + 1, at_ms, DELETED, b"", VersionMethod.DELETE
            ),
        )
        self._follow(stored.type, former, None)
        return deleted

    def rewrite(self, stored: StoredVersion, resource: Body) -> StoredVersion:
        """Keep the next version of a live resource in which only references changed; `redirected` moves their rows.

        `notify_rewritten` notifies its listeners, once everything that belongs together has been rewritten.
        """
        return self._write(stored, resource, None, VersionMethod.PUT)

    def followed(self, type_name: str) -> bool:
        """Return whether writes of a type have listeners."""
        return type_name in self._followers or (self._listener is not None and self._listener.watches(self, type_name))

    def notify_rewritten(self, key: int) -> None:
        """Notify the listeners of a resource that was rewritten."""
        stored = self.by_key(key)
        resource = stored.resource()
        self._notify(stored, None, resource, lambda: self._indexers[stored.type](resource))

    def retire(self, stored: StoredVersion, resource: Body, survivor: StoredVersion) -> StoredVersion:
        """Keep the last version of a merged-away resource: no search finds it, its identifiers find the survivor."""
        before = self._indexers[stored.type](stored.resource())
        kept = Index(identifiers=before.identifiers)
        write_index(self.connection, self.tenant, stored.key, before, kept)
        self.connection.execute(MOVE_IDENTIFIERS, (survivor.key, stored.key))
        self.connection.execute(MOVE_SURVIVOR, (survivor.id, self.tenant, stored.type, stored.id))
        if self._listener is not None:
            self._listener.merged(self)
        return self._write(stored, resource, survivor.id, VersionMethod.PUT)

    def holders(self, parameter: str, system: str, value: str) -> tuple[int, ...]:
        """Return the keys of the live resources that an identifier names."""
        rows = self.connection.execute(HOLDERS, (self.tenant, parameter, short(value), short(system)))
        return tuple(row[0] for row in rows)

    def inherited_identifiers(self, key: int) -> set[tuple[str, str]]:
        """Return parameter and value of the identifiers by which a resource is found, of those merged into it."""
        return set(self.connection.execute(INHERITED, (key,)))

    def record_number_holders(self, parameter: str, system: str, value: str) -> tuple[int, ...]:
        """Return the keys of the live resources for which an external medical record number is taken or reserved."""
        rows = self.connection.execute(RECORD_NUMBER_HOLDERS, (self.tenant, parameter, short(value), short(system)))
        return tuple(row[0] for row in rows)

    def referrers(self, target: str, *rows: str) -> Iterable[StoredVersion]:
        """Return every live resource that refers to `Type/id`, one at a time: they may be megabytes each.

        `rows` names those of the index that count (`Provenance.target`), all where none are given.
        """
        statement = REFERRERS.format(rows=f" AND parameter IN ({', '.join('?' * len(rows))})" if rows else "")
        keys = self.connection.execute(statement, (self.tenant, target, *rows)).fetchall()
        return (self.by_key(key) for (key,) in keys)

    def referring(self, target: str) -> dict[int, str]:
        """Return the types of the live resources that refer to `Type/id`, by their keys."""
        return dict(self.connection.execute(REFERRING, (self.tenant, target)).fetchall())

    def count_token(self, parameter: str, code: str) -> int:
        """Count the live resources that carry a code."""
        return int(self.connection.execute(COUNT_CODE, (self.tenant, parameter, short(code))).fetchone()[0])

    def _write(
        self, stored: StoredVersion, resource: Body, survivor: str | None, change: VersionMethod
    ) -> StoredVersion:
        version = stored.version + 1
        at_ms = max(milliseconds(self.at), stored.updated_ms)
        body = stamped(resource, stored.id, version, EPOCH + timedelta(milliseconds=at_ms))
        return self._succeed(
            stored, StoredVersion(stored.key, stored.type, stored.id, version, at_ms, survivor, body, change)
        )

    def _succeed(self, stored: StoredVersion, new: StoredVersion) -> StoredVersion:
        """Keep a version among the former ones, and the new one in its place."""
        self._touch(stored.body)
        self.connection.execute(KEEP, (new.updated_ms, stored.key))
        self.connection.execute(UPDATE, (new.version, new.updated_ms, new.survivor, new.body, new.change, stored.key))
        fault.point("F27")
        return new

    def _rows_of(self, type_name: str, resource: Body, elements: tuple[str, ...]) -> Index:
        """Return the rows of some elements, cached: many resources of one transaction have the same ones."""
        part = {name: resource[name] for name in ("resourceType", *elements) if name in resource}
        key = write_json(part)
        found = self._parts.get(key)
        if found is None:
            found = self._parts[key] = self._indexers[type_name](part)
        return found

    def _notify(self, stored: StoredVersion, before: Body | None, after: Body, index: Callable[[], Index]) -> None:
        self._follow(stored.type, before, after)
        if self._listener is not None:
            self._listener.on_write(self, stored, index)

    def _follow(self, type_name: str, before: Body | None, after: Body | None) -> None:
        follower = self._followers.get(type_name)
        if follower is not None:
            follower(self, before, after)

    def _touch(self, body: bytes) -> None:
        if len(self.touched) < MOST_PATIENTS:
            self.touched.update(patients_in(body))


# Called after a write: the resource before it, None for a new one, and after it, None for a deleted one.
Follower = Callable[[Transaction, Body | None, Body | None], None]


class ChangeListener(Protocol):
    """Queues the events of writes for their subscribers, in the transaction of the write."""

    def on_write(self, transaction: Transaction, stored: StoredVersion, index: Callable[[], Index]) -> None:
        """Called after a version was written; `index` makes all of its rows."""

    def watches(self, transaction: Transaction, type_name: str) -> bool:
        """Return whether writes of a type have subscribers."""

    def merged(self, transaction: Transaction) -> None:
        """Called after a resource was merged away: references to it now mean the survivor."""


class ChangeListeners(NamedTuple):
    """The listeners of writes: followers by type, which may write themselves, and the listener of subscriptions."""

    followers: Mapping[str, Follower] = MappingProxyType({})
    listener: ChangeListener | None = None


NOBODY: Final = ChangeListeners()


def milliseconds(at: datetime) -> int:
    """Return a moment as whole milliseconds since 1970, UTC."""
    return (at - EPOCH) // timedelta(milliseconds=1)


def iso(at_ms: int | None) -> str:
    """Return milliseconds since 1970 as an ISO text, '' for None."""
    return "" if at_ms is None else (EPOCH + timedelta(milliseconds=at_ms)).isoformat(timespec="milliseconds")


def stamped(resource: Body, resource_id: str, version: int, at: datetime) -> bytes:
    """Return a resource as bytes with the id, version and moment that the service gives it."""
    meta = {**resource.get("meta", {}), "versionId": str(version), "lastUpdated": at.isoformat(timespec="milliseconds")}
    rest = {name: value for name, value in resource.items() if name not in {"resourceType", "id", "meta"}}
    return write_json({"resourceType": resource["resourceType"], "id": resource_id, "meta": meta, **rest})
