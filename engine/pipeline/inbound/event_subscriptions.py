"""The Subscriptions that the engine keeps at a FHIR server: one for each type, active and as wanted."""

from collections.abc import Mapping
from functools import partial
from hashlib import sha256
from typing import Any, Final
from urllib.parse import quote

import orjson

from engine import telemetry
from engine.config.fhir_events import FhirEvents
from engine.deliver.fhir_reader import FhirReader
from engine.errors import DeliveryError, EventError
from engine.fhir.json import JsonObject
from engine.journal.journal import Journal
from engine.journal.state import event_cursors

UNNAMED: Final = "subscription-unnamed"
UNREADABLE_SECRET: Final = "secret-unreadable"  # noqa: S105 - a code, no secret
RESOURCE: Final = "Subscription"
GONE: Final = frozenset({404, 410})
ACTIVE: Final = frozenset({"requested", "active"})
# The profile whose server takes a type alone as criteria; others take a search without parameters.
BY_TYPE: Final = "shipped"

_log = telemetry.logger()


class EventSubscriptions:
    """The Subscriptions of one channel; the journal keeps the ids that the server gave them."""

    def __init__(self, channel: str, events: FhirEvents, reader: FhirReader, journal: Journal) -> None:
        self._channel = channel
        self._events = events
        self._reader = reader
        self._journal = journal
        # Digests of what was written since the start: nobody reads a token back, and it may be another one now.
        self._written: dict[str, bytes] = {}

    async def keep(self) -> bool:
        """See to it that each is there and active; return whether one was not.

        DeliveryError or EventError where the server does not take one.
        """
        kept = await self._journal.read(partial(event_cursors.read, channel=self._channel))
        found = [await self._keep(type_, kept.get(f"{RESOURCE}/{type_}", "")) for type_ in self._events.types]
        return not all(found)

    async def _keep(self, type_: str, logical_id: str) -> bool:
        """See to it that the Subscription of a type is there; return whether it was, and active."""
        wanted = self._wanted(type_)
        logical_id = logical_id or await self._adopted(wanted)
        found = await self._found(logical_id) if logical_id else None
        if found is None:
            await self._make(type_, wanted)
            return False
        active, same = found.get("status") in ACTIVE, _is_same(found, wanted)
        if active and same and self._written.get(type_) == _digest(wanted):
            return True
        if not active:
            _log.warning("subscription set active", channel=self._channel, code=type_, state=str(found.get("status")))
        body = orjson.dumps(wanted | {"id": logical_id})
        try:
            await self._reader.send("PUT", f"{RESOURCE}/{logical_id}", body)
        except DeliveryError as error:
            if error.status not in GONE:
                raise
            await self._make(type_, wanted)
            return False
        await self._note(type_, logical_id, wanted)
        return active and same

    async def _found(self, logical_id: str) -> JsonObject | None:
        """Return a Subscription as the server has it; None where it is gone."""
        answer = await self._reader.get(f"{RESOURCE}/{logical_id}")
        if answer.status in GONE:
            return None
        if answer.status != 200 or not isinstance(answer.json, dict):
            raise EventError(f"http-{answer.status}")
        return answer.json

    async def _adopted(self, wanted: JsonObject) -> str:
        """Return the id of a Subscription of ours whose making was never answered; '' where no search finds one."""
        query = quote(wanted["channel"]["endpoint"], safe="")
        try:
            bundle = (await self._reader.get(f"{RESOURCE}?url={query}")).json
        except DeliveryError as error:
            if not error.status:
                raise
            return ""
        entries = bundle.get("entry") or () if isinstance(bundle, dict) else ()
        found = [one.get("resource") for one in entries if isinstance(one, dict)]
        return next((str(one.get("id") or "") for one in found if isinstance(one, dict) and _is_same(one, wanted)), "")

    async def _make(self, type_: str, wanted: JsonObject) -> None:
        answer = await self._reader.send("POST", RESOURCE, orjson.dumps(wanted))
        made = answer.json if isinstance(answer.json, dict) else {}
        logical_id = made.get("id") if made.get("resourceType") == RESOURCE else _id_in(answer.headers)
        if not isinstance(logical_id, str) or not logical_id:
            raise EventError(UNNAMED)
        await self._note(type_, logical_id, wanted)
        _log.info("subscription made", channel=self._channel, code=type_)

    async def _note(self, type_: str, logical_id: str, wanted: JsonObject) -> None:
        places = {f"{RESOURCE}/{type_}": logical_id}
        await self._journal.write(partial(event_cursors.move, channel=self._channel, places=places))
        self._written[type_] = _digest(wanted)

    def _wanted(self, type_: str) -> JsonObject:
        events = self._events
        try:
            token = events.token.read() if events.token is not None else ""
        except LookupError as error:
            raise EventError(UNREADABLE_SECRET) from error
        return {
            "resourceType": RESOURCE,
            "status": "requested",
            "reason": f"adt-engine, channel {self._channel}",
            "criteria": type_ if events.server.profile == BY_TYPE else f"{type_}?",
            "channel": {
                "type": "rest-hook",
                "endpoint": f"{events.endpoint.rstrip('/')}/fhir/events/{events.path}",
                "payload": "application/fhir+json",
                "header": [f"Authorization: Bearer {token}"],
            },
        }


def _digest(wanted: JsonObject) -> bytes:
    return sha256(orjson.dumps(wanted)).digest()


def _is_same(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Say whether a Subscription sends what is wanted to where it is wanted."""
    channel = found.get("channel")
    endpoint = channel.get("endpoint") if isinstance(channel, dict) else ""
    return bool(found.get("criteria") == wanted["criteria"] and endpoint == wanted["channel"]["endpoint"])


def _id_in(headers: Mapping[str, str]) -> str:
    """Return the id in the Location of what was made."""
    _, _, rest = headers.get("location", "").rpartition(f"{RESOURCE}/")
    return rest.partition("/")[0]
