"""Notices: each ADT event that was delivered to a destination is announced there, outside all lanes."""

from datetime import datetime
from typing import Final

from engine import telemetry
from engine.config.channel import Channel, Mode
from engine.config.destination import Destination as Settings
from engine.deliver.destination import FhirDestination
from engine.deliver.notice import Notice
from engine.deliver.reply import RequestReply
from engine.hl7.message import Message
from engine.journal.entry import Claimed, FollowUpKind
from engine.journal.state.follow_ups import Due, FollowUpEnd, FollowUpState
from engine.pipeline.outbound.follow_ups import FollowUps, happens_now

TURNED_OFF: Final = "notice-turned-off"
OFF: Final = "off"
ADT: Final = "ADT"


def is_announced(claimed: Claimed, channel: Channel, settings: Settings, message: Message) -> bool:
    """True if a delivered message is announced to its destination: an ADT event of now, where that is set."""
    return settings.notify != OFF and message.leaf("MSH", 9, 1) == ADT and happens_now(claimed, channel, message)


class Notices(FollowUps):
    """The notices of one destination."""

    kind = FollowUpKind.NOTICE
    counter = telemetry.NOTICES
    failed = "not notified"
    answered = "F48"

    async def known_end(
        self, destination: FhirDestination, channel: Channel | None, _due: Due, now: datetime
    ) -> FollowUpEnd | None:
        """Return how one ends that is no longer wanted."""
        if channel is None or destination.settings.notify == OFF or channel.mode is not Mode.LIVE:
            return FollowUpEnd(FollowUpState.GIVEN_UP, TURNED_OFF, now, asked=False)
        return None

    async def ask(self, destination: FhirDestination, due: Due, now: datetime) -> RequestReply:
        """Tell the destination of the event."""
        notice = Notice(due.channel, due.digest, due.event, due.received_at, due.patient, due.visit)
        return await destination.notify(notice, now)
