"""An engine as a process that passes messages on to receivers of the test's own; no FHIR service."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple

from engine.ops.sender.line import BlockAnswer, send_messages
from tests.flow.feed import FeedMessage
from tests.flow.rig import POLL_SECONDS, Rig, channel_file, write
from tests.flow.sender import Sender
from tests.relay.receiver import Receiver

DELIVERIES: Final = """
    SELECT delivery.seq, entry.control_id, destination, delivery.state, delivery.reason, notes, tries
    FROM delivery JOIN entry USING (seq) ORDER BY delivery.seq, destination
"""
RAWS: Final = """
    SELECT raw FROM delivery JOIN payload USING (seq) WHERE destination = '{}' AND delivery.state = 'delivered'
    ORDER BY delivery.seq
"""
HEAD: Final = "MSH|^~\\&|REG|RVB|X|Y|20260301080000||{type}|{id}|P|2.5.1{rest}\r"
PID: Final = "PID|1||{number}^^^RVB^MR||Quintero^Marisol||19840229|F\r"


class Delivery(NamedTuple):
    """One delivery as the journal has it."""

    seq: int
    control_id: str
    destination: str
    state: str
    reason: str
    notes: str
    tries: int


class RelayRig(Rig):
    """A folder with an engine and no service; `relays` are its receivers by name."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.receivers: dict[str, Receiver] = {}
        self.destinations: list[dict[str, Any]] = []
        self.channel: dict[str, Any] = {}

    async def receiver(self, name: str = "ris", *, receiver: Receiver | None = None, **keys: Any) -> Receiver:
        """Start a receiver, and describe it as a relay in the channel file; keywords are its keys there."""
        found = self.receivers[name] = await (receiver or Receiver()).start()
        self.destinations.append(relay(name, found.port, **keys))
        return found

    def describe(self, **channel: Any) -> None:
        """Write the channel file; keywords are keys of it, kept for the next time."""
        self.channel |= channel
        write(
            self.folder / "channels" / "riverbend-adt.yaml",
            channel_file(self.proxy.url) | {"destinations": self.destinations} | self.channel,
        )

    def change(self, name: str, **keys: Any) -> None:
        """Describe a relay anew; None takes a key out."""
        self.destinations = [
            {key: value for key, value in (one | keys).items() if value is not None} if one["name"] == name else one
            for one in self.destinations
        ]
        self.describe()

    async def begin(self, **environment: str) -> None:
        """Write the channel file and start the engine."""
        self.describe()
        await self.engine.start(**environment)
        await self.engine.line("started")

    async def send(self, *raws: bytes) -> list[BlockAnswer]:
        """Send messages, one after the other over one connection, and return the answers."""
        host, port = await self.address()
        return await send_messages(host, port, raws)

    async def taken(self, *raws: bytes) -> None:
        """Send messages that are taken in."""
        answers = await self.send(*raws)
        refused = [one for one in answers if one.code != "AA"]
        assert not refused, refused[:3]

    def sender_of(self, raws: Iterable[bytes], connections: int = 1) -> Sender:
        """Return a sender that sends what was not answered again, also to a later life of the engine."""
        feed = [FeedMessage(raw.split(b"|")[9].decode(), at, raw, "") for at, raw in enumerate(raws)]
        return self.sender(feed, connections)

    async def done(self, act: str, **given: Any) -> Any:
        """Do an act and return what it answers; AssertionError where it is refused."""
        answer = await self.ask(act, **given)
        assert "error" not in answer, answer
        return answer["done"]

    async def settled(self, count: int) -> list[Delivery]:
        """Wait until so many deliveries are there and none is under way; return them."""
        await self.when(lambda all_: len(all_) >= count)
        await self.drained()
        return self.deliveries()

    async def when(self, condition: Callable[[list[Delivery]], bool], seconds: float = 60.0) -> list[Delivery]:
        """Wait until a condition holds over the deliveries and return them; AssertionError where it never does."""
        try:
            async with asyncio.timeout(seconds):
                while not condition(found := self.deliveries()):
                    assert self.engine.alive, self.engine.log()
                    await asyncio.sleep(POLL_SECONDS)
        except TimeoutError:
            left = [one for one in self.deliveries() if one.state != "delivered"]
            raise AssertionError(f"it never came so far: {left[:20]}\n{self.engine.log()}") from None
        return found

    def deliveries(self, name: str = "") -> list[Delivery]:
        """Return the deliveries in order, or those to one destination."""
        found = [Delivery(*row) for row in self._query(DELIVERIES) if len(row) > 1]
        return [one for one in found if name in {"", one.destination}]

    def raws(self, name: str = "ris") -> list[bytes]:
        """Return what was delivered to a relay as the journal holds it, in its order."""
        return [bytes(raw) for (raw,) in self._query(RAWS.format(name))]

    def journal_rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Ask the journal."""
        return self._query(sql)

    async def close(self) -> None:
        """End the engine and all receivers."""
        await super().close()
        await asyncio.gather(*(one.stop() for one in self.receivers.values()))


@contextlib.asynccontextmanager
async def relaying(folder: Path) -> AsyncIterator[RelayRig]:
    """Give a rig whose receivers and engine the test starts."""
    rig = RelayRig(folder)
    await rig.proxy.start("http://127.0.0.1:9")
    try:
        yield rig
    finally:
        await rig.close()


def relay(name: str, port: int, **keys: Any) -> dict[str, Any]:
    """Return a relay in a channel file, with short waits."""
    retry = {"first_seconds": 0.05, "max_seconds": 0.2}
    return {"name": name, "type": "mllp", "host": "127.0.0.1", "port": port, "retry": retry} | keys


def adt(control_id: str, number: str, event: str = "A28", *, rest: str = "", more: str = "") -> bytes:
    """Return an ADT message about one person; `rest` are fields of MSH from MSH-13 on."""
    head = HEAD.format(type=f"ADT^{event}", id=control_id, rest=rest)
    return f"{head}EVN||20260301080000\r{PID.format(number=number)}{more}".encode()


def merge(control_id: str, kept: str, gone: str) -> bytes:
    """Return an A40."""
    return adt(control_id, kept, "A40", more=f"MRG|{gone}^^^RVB^MR\r")


def other(control_id: str, number: str, kind: str = "ORU^R01") -> bytes:
    """Return a message of another type about one person."""
    head = HEAD.format(type=kind, id=control_id, rest="")
    return f"{head}{PID.format(number=number)}OBX|1|ST|a||x\r".encode()


def series(count: int, patients: int = 5, first: int = 0) -> list[bytes]:
    """Return messages about some patients in turn: K0 about 100, K1 about 101 ..."""
    return [adt(f"K{number}", str(100 + number % patients)) for number in range(first, first + count)]


def of_patient(raws: Iterable[bytes], number: str) -> list[bytes]:
    """Return those messages that are about a patient."""
    return [raw for raw in raws if f"PID|1||{number}^".encode() in raw]
