"""The server of a draft: reads are real and logged, writes are recorded and answered provisionally, to be sent as one.

Delivery runs on it as on the server itself, then once more with the true answers; nothing that was answered for now
outlives the draft, and no other delivery sees it.
"""

from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import partial
from typing import Final
from uuid import NAMESPACE_URL, uuid5

import orjson

from engine.deliver.stored import PATIENT, Body, Cache, ServerResource, Slices
from engine.deliver.wire.client import ServerResponse
from engine.deliver.wire.dry_run import DryRunServer
from engine.deliver.wire.response_log import Headers, Recalled, ResponseLog, name_of
from engine.deliver.wire.server import DestinationServer
from engine.errors import DeliveryError, PermanentDeliveryError
from engine.fhir.plan import Identity

# Why a draft is given up: the requests are sent one by one then, and this is never reported.
NOT_DRAFTED: Final = "not-drafted"


@dataclass(slots=True)
class RecordedWrite:
    """A create or update that is to be sent; `path` is `Encounter` or `Encounter/1`, `headers` hold its condition."""

    method: str
    path: str
    headers: Headers
    body: Body

    @property
    def type_(self) -> str:
        """The type of the resource."""
        return self.path.partition("/")[0]


class RecordingServer(DryRunServer):
    """A destination's server in one draft: `writes` by reference, in order, and a `response_log` of the reads.

    A created resource gets a provisional id derived from its condition. A resource written twice is recorded once, in
    its last state; `count` is the number of writes. Raises PermanentDeliveryError for what is
    neither a conditional create nor an update.
    """

    is_draft = True

    def __init__(self, real: DestinationServer) -> None:
        super().__init__(real)
        self.abilities = real.abilities
        self.response_log = ResponseLog()
        self.writes: dict[str, RecordedWrite] = {}
        self.count = 0
        self._layers: dict[str, Layer] = {}
        self.cache = self.cache_of(PATIENT)

    def cache_of(self, type_: str) -> Cache:
        """Return the cache of the resources of a type, as it would be."""
        if type_ not in self._layers:
            self._layers[type_] = Layer(self._real.cache_of(type_))
        return self._layers[type_]

    def forget(self) -> None:
        """Forget what is remembered of resources, here and of the server itself."""
        super().forget()
        self._real.forget()

    def keep_caches(self) -> None:
        """Let the caches be as they would be, but for what was put down to be written."""
        written = {reference.partition("/")[2] for reference in self.writes}
        for layer in self._layers.values():
            layer.keep(written)

    def recalled(self) -> Recalled:
        """Return the resources that the draft took from the caches of the server itself."""
        return {
            (type_, identities): found
            for type_, layer in self._layers.items()
            for identities, found in layer.recalled.items()
        }

    async def ask(self, method: str, url: str, headers: Headers, body: bytes = b"") -> ServerResponse:
        """Read from the server, or put down a write and answer it for now."""
        if method == "GET":
            return await super().ask(method, url, headers)
        path, names = url.removeprefix(f"{self.base}/"), dict(headers)
        if method == "POST" and "If-None-Exist" in names:
            return self._draft_create(path, body, headers, names["If-None-Exist"])
        if method == "PUT" and "If-None-Match" not in names:
            return self._draft_update(path, body, headers)
        raise PermanentDeliveryError(NOT_DRAFTED, codes=(NOT_DRAFTED,))

    def _draft_create(self, type_: str, content: bytes, headers: Headers, condition: str) -> ServerResponse:
        logical_id = str(uuid5(NAMESPACE_URL, f"{self.base}/{type_}?{condition}"))
        reference = f"{type_}/{logical_id}"
        body = _read(content)
        self.count += 1
        self.writes[reference] = RecordedWrite("POST", type_, headers, body)
        return self._wrote(reference, {**body, "id": logical_id}, 201)

    def _draft_update(self, reference: str, content: bytes, headers: Headers) -> ServerResponse:
        body, held = _read(content), self.writes.get(reference)
        self.count += 1
        if held is None:
            self.writes[reference] = RecordedWrite("PUT", reference, headers, body)
        else:
            own = {"id", "meta"}
            held.body = {name: held.body[name] for name in own if name in held.body} | {
                name: value for name, value in body.items() if name not in own
            }
        return self._wrote(reference, body, 200)

    async def _search(self, path: str) -> ServerResponse:
        answer = await super()._search(path)
        entries = (answer.json or {}).get("entry") or () if answer.status == 200 else ()
        shown = (entry["resource"] for entry in entries)
        if any(f"{one.get('resourceType')}/{one.get('id')}" in self._pretended for one in shown):
            self.response_log.drop(name_of("GET", f"{self.base}/{path}"))  # it was answered with what is not there yet
        return answer

    async def _really(self, path: str) -> ServerResponse:
        url = f"{self.base}/{path}"
        try:
            answer = await self._real.ask("GET", url, ())
        except DeliveryError as error:
            self.response_log.keep(name_of("GET", url), error)
            raise
        self.response_log.keep(name_of("GET", url), answer)
        return answer


class Layer(Cache):
    """A cache above another one, which stays as it is until `keep`."""

    def __init__(self, below: Cache) -> None:
        super().__init__(below.most)
        self._below = below
        self._own = Cache(below.most)
        self.recalled: dict[tuple[Identity, ...], ServerResource] = {}
        self._dropped: set[str] = set()
        self._done: list[tuple[str, Callable[[], None]]] = []

    def find(self, identities: Sequence[Identity]) -> ServerResource | None:
        """Return the one resource that all the identifiers are known to stand for, else None."""
        own = self._own.find(identities)
        found = own or self._below.find(identities)
        if found is None or found.logical_id in self._dropped:
            return None
        if own is None:
            self.recalled[tuple(identities)] = found
        return found

    def owned(self, logical_id: str, source: str) -> Slices | None:
        """Return what a source owns of a resource, None where neither cache knows."""
        own = self._own.owned(logical_id, source)
        return own if own is not None or logical_id in self._dropped else self._below.owned(logical_id, source)

    def stands_for(self, identities: Sequence[Identity]) -> str | None:
        """Return the id of the one resource that all the identifiers are known to stand for, else None."""
        found = self._own.stands_for(identities) or self._below.stands_for(identities)
        return None if found in self._dropped else found

    def holds(self, patient: ServerResource) -> bool:
        """Say whether a resource that was found is remembered still, in the version in which it was found."""
        own = self._own.last(patient.logical_id) is not None or patient.logical_id in self._dropped
        return (self._own if own else self._below).holds(patient)

    def last(self, logical_id: str) -> ServerResource | None:
        """Return a resource as it is remembered, None where neither cache knows it."""
        own = self._own.last(logical_id)
        return own if own is not None or logical_id in self._dropped else self._below.last(logical_id)

    def put(self, patient: ServerResource, identities: Iterable[Identity], source: str, owned: Slices) -> None:
        """Remember a resource here."""
        keys = tuple(identities)
        self._dropped.discard(patient.logical_id)
        self._own.put(patient, keys, source, owned)
        self._done.append((patient.logical_id, partial(self._below.put, patient, keys, source, owned)))

    def drop(self, logical_id: str) -> None:
        """Forget a resource here."""
        self._dropped.add(logical_id)
        self._own.drop(logical_id)
        self._done.append((logical_id, partial(self._below.drop, logical_id)))

    def forget(self, identities: Iterable[Identity]) -> None:
        """Forget here the resources that stand behind identifiers."""
        for identity in identities:
            found = self.find((identity,))
            if found is not None:
                self.drop(found.logical_id)

    def clear(self) -> None:
        """Forget all that was met here."""
        self._own.clear()
        self._done.clear()

    def keep(self, but: AbstractSet[str]) -> None:
        """Do to the cache below what was done here, but for the resources of some ids."""
        for logical_id, one in self._done:
            if logical_id not in but:
                one()


def _read(content: bytes) -> Body:
    body: Body = orjson.loads(content)
    return body
