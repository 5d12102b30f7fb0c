"""Whether the senders of messages share one channel: what each of them needs, and the reason of a proposal."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from engine.config.model import folded
from engine.mapping.authoring.feed import FeedSurvey
from engine.mapping.authoring.local_codes import MissingCode

IDENTITY = "PID-3"


class ChannelChoice(StrEnum):
    """One channel for all senders, or one for each."""

    ONE = "one"
    EACH = "each"


@dataclass(slots=True)
class SenderFindings:
    """What the messages of one sender (MSH-3, MSH-4) hold, and the mapping that they are for.

    `codes`: those without a row; `unread`: the fields that no rule reads.
    """

    feed: FeedSurvey
    mapping: str = ""
    codes: Counter[MissingCode] = field(default_factory=Counter)
    unread: set[str] = field(default_factory=set)

    @property
    def name(self) -> str:
        """The sender as a channel names it, `REG|RVB`."""
        ((sender, _),) = self.feed.senders.most_common(1)
        return "|".join(filter(None, sender)) or "(no sender)"

    @property
    def authorities(self) -> set[str]:
        """The authorities of its patients' numbers."""
        return {one.namespace or one.universal for one in self.feed.authorities if one.field == IDENTITY}

    @property
    def charsets(self) -> set[str]:
        """The character sets of its messages that declare none and are not UTF-8."""
        return set(+self.feed.guesses)


@dataclass(slots=True)
class ProposedChannel:
    """A channel for one or several senders, with the reason."""

    senders: list[SenderFindings]
    reason: str
    name: str = ""
    port: int = 0

    @property
    def mapping(self) -> str:
        """The mapping of the sender with the most messages."""
        return self.senders[0].mapping

    @property
    def feed(self) -> FeedSurvey:
        """All that its messages hold."""
        joined = FeedSurvey()
        for one in self.senders:
            joined.join(one.feed)
        return joined


def proposed(senders: Sequence[SenderFindings], choice: ChannelChoice | None = None) -> list[ProposedChannel]:
    """Return the channels for senders, the one with the most messages first; `choice` None: as they differ.

    Senders share a channel where authorities, character set, zone and mapping go together.
    """
    ordered = sorted(senders, key=lambda one: (-one.feed.messages, one.name))
    if choice is ChannelChoice.ONE:
        return [ProposedChannel(ordered, "one, as asked for" + _unlike(ordered))]
    if choice is ChannelChoice.EACH:
        return [ProposedChannel([one], "its own, as asked for") for one in ordered]
    channels: list[ProposedChannel] = []
    for sender in ordered:
        apart = [list(differences(sender, channel.senders)) for channel in channels]
        fitting = next((channel for channel, found in zip(channels, apart, strict=True) if not found), None)
        if fitting is not None:
            fitting.senders.append(sender)
        else:
            channels.append(ProposedChannel([sender], "; ".join(apart[0]) if apart else ""))
    for channel in channels:
        if len(channel.senders) > 1:
            channel.reason = "; ".join(filter(None, (channel.reason, "same authorities, character set, zone, mapping")))
        channel.reason = channel.reason or ("the only sender" if len(channels) == 1 else "most messages")
    return channels


def differences(sender: SenderFindings, others: Sequence[SenderFindings]) -> Iterator[str]:
    """Yield what keeps a sender from the channel of others."""
    first = others[0]
    if sender.mapping != first.mapping:
        yield f"mapping {sender.mapping}, not {first.mapping}"
    known = set().union(*(one.authorities for one in others))
    if known and sender.authorities and not known & sender.authorities:
        yield f"authorities {_listed(sender.authorities)}, not {_listed(known)}"
    elif name := next((one for other in others for one in _otherwise(sender, other)), ""):
        yield f"another universal ID of {name}"
    sets = set().union(*(one.charsets for one in others))
    if sets and sender.charsets and sets != sender.charsets:
        yield f"character set {_listed(sender.charsets)}, not {_listed(sets)}"
    zones = set().union(*(one.feed.offsets for one in others))
    if zones and sender.feed.offsets and not zones & sender.feed.offsets.keys():
        yield f"times in {_listed(sender.feed.offsets)}, not {_listed(zones)}"


def _unlike(senders: Sequence[SenderFindings]) -> str:
    apart = [f"{one.name}: {found}" for one in senders[1:] for found in differences(one, senders[:1])]
    return f"; but {'; '.join(apart)}" if apart else ""


def _otherwise(one: SenderFindings, other: SenderFindings) -> Iterator[str]:
    """Yield the namespaces that come with another universal id, of numbers of the same field and type."""
    ids: list[dict[tuple[str, str, str], set[str]]] = [{}, {}]
    for found, sender in zip(ids, (one, other), strict=True):
        for seen in sender.feed.authorities:
            if seen.namespace and seen.universal:
                found.setdefault((seen.namespace, seen.field, seen.type_), set()).add(seen.universal)
    yield from sorted(key[0] for key in ids[0].keys() & ids[1].keys() if not ids[0][key] & ids[1][key])


def _listed(names: Iterable[str]) -> str:
    return folded(sorted(filter(None, names))) or "(empty)"
