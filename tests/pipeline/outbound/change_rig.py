"""What a relay is sent of the events of a registry: a real journal and the real decisions; only nobody listens."""

import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import orjson
import pytest

from engine.config.channel import Channel
from engine.errors import MappingError, UnreadServerError
from engine.fhir.json import JsonObject
from engine.http.request import HttpRequest
from engine.journal.entry import SENT, Claimed, OwnWrite, Settlement, State
from engine.journal.journal import Journal
from engine.mapping.outgoing.change import AdtMessage, FhirChange
from engine.mapping.outgoing.compile import OutgoingMapping
from engine.pipeline.feed import Feed
from engine.pipeline.inbound.event_entries import event_entry
from engine.pipeline.outbound.change_messages import ChangeMessage, ChangeMessages
from engine.receive.reply import Peer
from tests.journal.desk import entry
from tests.pipeline.outbound.event_registry import BASE, NOON, Registry, RegistryReader

EHR: Final = "ehr"
CHANNEL: Final = "back"
FEED: Final = "riverbend-adt"
RECORD: Final = "record"


class SentChange(NamedTuple):
    """What a message says: the kind of the change, the resource, its version, and the patient as he is in it."""

    kind: str
    reference: str
    version: str
    patient: JsonObject


class Whole:
    """Makes of a change all of it, and nothing of HL7."""

    def message(self, change: FhirChange, control_id: str, _now: datetime) -> AdtMessage:
        """Return a change as it is."""
        about = change.merged or change.encounter or change.patient
        content = {
            "kind": change.kind.value,
            "reference": f"{about['resourceType']}/{about['id']}",
            "version": about.get("meta", {}).get("versionId", ""),
            "patient": change.patient,
            "id": control_id,
        }
        return AdtMessage(orjson.dumps(content), change.kind.value, control_id, (), "")


class ChangeRig:
    """One relay of one channel of events; `sent` are the messages that left, `ended` state and reason of each entry.

    `events` in `arrive` come in one after the other; `run` delivers what may run.
    """

    def __init__(self, journal: Journal, registry: Registry, *, by_feed: bool = False, **outgoing: Any) -> None:
        server = {"name": RECORD, "base_url": BASE}
        relay = {"name": EHR, "type": "mllp", "host": "127.0.0.1", "port": 9, "order": "feed" if by_feed else "patient"}
        relay |= {"outgoing": outgoing} if outgoing else {}
        given = {"channel": CHANNEL, "listen": {"fhir": {"path": "back", "server": server}}, "destinations": [relay]}
        self.channel = Channel.model_validate(given)
        self.feed = Feed(self.channel, None, (EHR,), frozenset(), {})  # type: ignore[arg-type]  # nothing is mapped
        self.journal = journal
        self.registry = registry
        self.by_feed = by_feed
        self.reader = RegistryReader(registry, self.channel)
        self.changes = ChangeMessages(journal, {CHANNEL: self.reader})
        self.writers: tuple[str, ...] = (RECORD,)
        self.now = NOON
        self.sent: list[bytes] = []
        self.ended: list[tuple[State, str]] = []
        self.notes: set[str] = set()
        # What becomes of the next messages: the answer is lost after the message was taken.
        self.lost = 0

    def restart(self) -> None:
        """Forget what is only in memory, as a kill does."""
        self.changes = ChangeMessages(self.journal, {CHANNEL: self.reader})

    async def arrive(self, *events: bytes) -> None:
        """Take events in."""
        for raw in events:
            await self.journal.record(event_entry(raw, self.feed, Peer("192.0.2.1", 4711), self.now))

    async def wrote(self, *versions: tuple[Any, ...]) -> None:
        """Settle a delivery of the feed to the server that has written versions: reference, version, and moment."""
        seq = (await self.journal.record(entry(f"W{self.now}{versions}", destinations=(RECORD,)))).seq
        claimed = await self.journal.claim(RECORD, 1, self.now)
        assert [one.seq for one in claimed] == [seq]
        own = tuple(OwnWrite(RECORD, reference, version, FEED, *rest) for reference, version, *rest in versions)
        await self.journal.settle(Settlement(seq, RECORD, State.DELIVERED, self.now, own_writes=own))

    async def run(self) -> None:
        """Deliver until nothing may run; what was not answered is tried once more, later."""
        while claims := await self.journal.claim(EHR, 16, self.now, run=self.by_feed):
            for at, claimed in enumerate(claims, 1):
                if not await self.deliver(claimed) and self.by_feed:
                    # What was claimed behind it waits for it, as in the engine.
                    await self.journal.give_back(EHR, [one.seq for one in claims[at:]])
                    break

    async def take(self, *events: bytes) -> list[str]:
        """Take events in, deliver them, and return how each ended: the kind of its message, or why there is none."""
        before, ended = len(self.sent), len(self.ended)
        await self.arrive(*events)
        await self.run()
        kinds = iter([one.kind for one in changes_of(self.sent[before:])])
        return [reason or next(kinds) for _, reason in self.ended[ended:]]

    async def message(self, claimed: Claimed) -> ChangeMessage:
        """Return what is sent of a claimed event."""
        relay = self.channel.relay_of(EHR)
        assert relay is not None
        mapping = cast(OutgoingMapping, Whole())
        return await self.changes.message(claimed, relay, mapping, self.writers, self.now)

    async def deliver(self, claimed: Claimed) -> bool:
        """Deliver one entry, and settle it; say whether it has come to its end."""
        result = Settlement(claimed.seq, EHR, State.DELIVERED, self.now)
        try:
            made = await self.message(claimed)
        except UnreadServerError as error:
            return await self._again(result, str(error))
        except MappingError as error:
            await self._settle(replace(result, state=State.HELD, reason=error.reason, keep_lane=False))
            return True
        self.notes |= set(made.notes)
        if made.nothing:
            self.changes.sent(EHR, made.sent)
            await self._settle(replace(result, state=State.FILTERED, reason=made.nothing, sent=made.sent))
            return True
        number = claimed.attempts_made + 1
        await self.journal.intend(claimed.seq, EHR, HttpRequest(number, SENT, "ehr:9", (), made.raw, self.now))
        self.sent.append(made.raw)
        if self.lost:
            self.lost -= 1
            return await self._again(result, "no-answer")
        self.changes.sent(EHR, made.sent)
        await self._settle(replace(result, sent=made.sent))
        return True

    async def _again(self, result: Settlement, reason: str) -> bool:
        self.registry.down = False
        self.now += timedelta(minutes=1)
        await self.journal.settle(replace(result, state=State.RECEIVED, reason=reason, retry_at=self.now))
        return False

    async def _settle(self, result: Settlement) -> None:
        self.ended.append((result.state, result.reason))
        await self.journal.settle(result)
        self.changes.settled(EHR, result.sent)


def changes_of(raws: Sequence[bytes]) -> list[SentChange]:
    """Return what messages say."""
    values = [orjson.loads(raw) for raw in raws]
    return [SentChange(one["kind"], one["reference"], one["version"], one["patient"]) for one in values]


@contextlib.asynccontextmanager
async def change_rig(folder: Path, registry: Registry | None = None, **given: Any) -> AsyncIterator[ChangeRig]:
    """Give a relay of a registry, with a journal of its own."""
    journal = await Journal.open(folder, clock=lambda: NOON, fail=pytest.fail, reserve_bytes=0)
    rig = ChangeRig(journal, registry or Registry(), **given)
    try:
        yield rig
    finally:
        await rig.reader.close()
        await journal.close()
