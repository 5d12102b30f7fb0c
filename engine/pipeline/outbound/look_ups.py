"""Look-ups: a patient who was admitted at a destination is looked up on the networks, outside all lanes."""

from datetime import datetime, timedelta
from functools import partial
from typing import Final

from engine import telemetry
from engine.config.channel import Channel, Mode
from engine.deliver.destination import FhirDestination
from engine.deliver.reply import RequestReply
from engine.hl7.message import Message
from engine.journal.entry import Claimed, FollowUpKind
from engine.journal.state import follow_ups
from engine.journal.state.follow_ups import ASKED_ALREADY, Due, FollowUpEnd, FollowUpState
from engine.pipeline.outbound.follow_ups import FollowUps, happens_now

RESTRICTED: Final = "lookup-restricted"
TOO_OLD: Final = "lookup-too-old"
TURNED_OFF: Final = "lookup-turned-off"
# A patient who was asked for so lately is not asked for again: the same answer would come.
ASKED_WITHIN: Final = timedelta(minutes=10)
# Table 0717: no restriction at all, and a patient who takes part in all registries.
UNRESTRICTED: Final = frozenset({"NO", "OI"})


def refusal(
    claimed: Claimed, channel: Channel, message: Message, event_at: datetime | None, now: datetime
) -> str | None:
    """Say why no look-up is made for a delivered message: None where one is made, '' where none was asked for."""
    if claimed.event not in channel.lookup_on or not happens_now(claimed, channel, message):
        return ""
    if is_restricted(message):
        return RESTRICTED
    return TOO_OLD if now - (event_at or claimed.received_at) > channel.lookup_max_age else None


def is_restricted(message: Message) -> bool:
    """Say whether the patient's data must not be disclosed: PD1-12 protects it, or an ARV restricts access to any."""
    protected = message.leaf("PD1", 12)
    restrictions = (one for one in message.named("ARV") if one.leaf(2, 1) != "D")
    return (isinstance(protected, str) and protected.strip().upper() not in {"", "N"}) or any(
        one.leaf(3, 1) not in UNRESTRICTED for one in restrictions
    )


class LookUps(FollowUps):
    """The look-ups of one destination."""

    kind = FollowUpKind.LOOKUP
    counter = telemetry.LOOKUPS
    failed = "not looked up"
    answered = "F37"

    async def known_end(
        self, _destination: FhirDestination, channel: Channel | None, due: Due, now: datetime
    ) -> FollowUpEnd | None:
        """Return how one ends that is no longer wanted, is too old by now, or was asked for a short time ago."""
        if channel is None or due.event not in channel.lookup_on or channel.mode is not Mode.LIVE:
            return FollowUpEnd(FollowUpState.GIVEN_UP, TURNED_OFF, now, asked=False)
        if now - due.began > channel.lookup_max_age:
            return FollowUpEnd(FollowUpState.GIVEN_UP, TOO_OLD, now, asked=False)
        asked = partial(follow_ups.recent, destination=self._name, patient=due.patient, now=now, within=ASKED_WITHIN)
        handle = await self._journal.read(asked)
        if handle is None:
            return None
        return FollowUpEnd(FollowUpState.ACCEPTED, ASKED_ALREADY, now, handle=handle, asked=False)

    async def ask(self, destination: FhirDestination, due: Due, now: datetime) -> RequestReply:
        """Ask for a look-up of the patient."""
        return await destination.look_up(due.patient, now)
