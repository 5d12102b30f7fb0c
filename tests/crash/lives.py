"""Many lives of one engine: it is killed, at named points or at random, and started again while the sender goes on."""

import asyncio
import signal
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import Final

from tests.crash.checker import History, Judgement, Verdict, judge
from tests.crash.relays import RELAYED, Relayed, numbers_in
from tests.flow.feed import FeedMessage
from tests.flow.rig import Rig
from tests.flow.sender import Sender
from tests.relay.receiver import Receiver

RECEIVING: Final = ("F01", "F02", "F03", "F05", "F06", "F07")
DELIVERING: Final = ("F08", "F09", "F10", "F11", "F12", "F13", "F14", "F15", "F17")
MERGING: Final = "F18"
KILLED: Final = -signal.SIGKILL
DEATH_SECONDS: Final = 60.0


class Lives:
    """A rig whose engine dies many deaths under one feed; `deaths` says of what.

    `relays` are the receivers of its relays in feed order, `by_patient` of those in the order of each patient.
    """

    def __init__(self, rig: Rig, feed: list[FeedMessage], connections: int) -> None:
        self.rig = rig
        self.deaths: list[str] = []
        self.relays: dict[str, Receiver] = {}
        self.by_patient: dict[str, Receiver] = {}
        self.sender: Sender = rig.sender(feed, connections)
        self._sending = asyncio.create_task(self.sender.run())

    async def die_at(self, point: str, nth: int) -> None:
        """Live until the engine reaches a point for the nth time and is killed there."""
        await self.rig.engine.spawn(ENGINE_FAULT=f"{point}:kill:{nth}")
        try:
            code = await self.rig.engine.ended(DEATH_SECONDS)
        except TimeoutError:
            raise AssertionError(f"{point} was never reached {nth} times\n{self.rig.engine.log()}") from None
        assert code == KILLED, (point, code, self.rig.engine.log())
        self.deaths.append(point)

    async def die_somewhere(self, random: Random, answers: int) -> None:
        """Live until so many more messages are answered, or a random point is reached if that comes first."""
        point = random.choice((*RECEIVING, *DELIVERING, MERGING, MERGING))
        engine = self.rig.engine
        goal = self.sender.answered + answers
        await engine.spawn(ENGINE_FAULT=f"{point}:kill:{random.randint(1, 1 + answers // 2)}")
        progress = asyncio.create_task(self.sender.answers(goal))
        death = asyncio.create_task(engine.ended(DEATH_SECONDS))
        await asyncio.wait({progress, death, self._sending}, return_when=asyncio.FIRST_COMPLETED)
        if not death.done():
            await asyncio.wait({death}, timeout=random.random() * 0.1)
        self.deaths.append(point if death.done() else "at random")
        progress.cancel()
        await engine.kill()
        assert await death == KILLED, engine.log()

    async def die_while_starting(self, seconds: float) -> None:
        """Be killed so long after the start, ready or not."""
        await self.rig.engine.spawn()
        await asyncio.sleep(seconds)
        await self.rig.engine.kill()
        self.deaths.append("while starting")

    async def sweep(self, die: Callable[[int], Awaitable[None]], answers: Sequence[int]) -> Judgement:
        """Die once after each of so many more answers, live on to the end, and hold every promise over all of it."""
        try:
            for count in answers:
                await die(count)
            judgement = await self.live()
        finally:
            await self.end()
        assert not judgement.violations, judgement.report()
        assert judgement.verdict is Verdict.VALID
        assert judgement.counts["faults"] == len(answers)
        return judgement

    async def live(self) -> Judgement:
        """Live once more, to the end of the feed and of all work, and judge everything."""
        await self.rig.engine.start()
        await self._sending
        await self.rig.drained()
        assert await self.rig.engine.stop() == 0
        rig = self.rig
        return judge(
            History(
                self.sender.log,
                rig.rows("interchange"),
                [one for one in rig.attempts() if one.method not in RELAYED],
                rig.proxy.calls,
                (patients := await rig.patients()),
                visits=await rig.visits(patients),
                faults=len(self.deaths),
                least_answers=len(self.deaths),
                relays=[self._relayed(name) for name in (*self.relays, *self.by_patient)],
            )
        )

    def _relayed(self, name: str) -> Relayed:
        delivered = [row.raw for row in self.rig.rows(name) if row.state == "delivered"]
        if name in self.relays:
            there = self.relays[name]
            return Relayed(there.received, delivered, senders=there.most_unanswered)
        return Relayed(self.by_patient[name].received, delivered, patients=numbers_in(delivered))

    async def end(self) -> None:
        """Stop sending, whatever became of it."""
        self._sending.cancel()
        await asyncio.gather(self._sending, return_exceptions=True)
