"""What happened to a patient's messages, in one sentence: made of how far they are, what is held, and destinations."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from enum import StrEnum
from typing import Final

from engine.ops.views.answer import Answer
from engine.ops.views.incident import destination_words
from engine.ops.views.reasons import reason_of

OF_VISITS: Final = "visit-"
ENDS: Final = (". ", "; ", ": ")


class PatientVerdictKind(StrEnum):
    """What a verdict comes to, the gravest first; `missing`: delivered, and no record is there now."""

    HELD = "held"
    WAITING = "waiting"
    REFUSED = "refused"
    MISSING = "missing"
    UNDELIVERED = "undelivered"
    UNDER_WAY = "under-way"
    DELIVERED = "delivered"
    NOTHING = "nothing"


class PatientVerdict(Answer):
    """What happened to a patient's messages, in one sentence; times are of the engine's machine."""

    kind: PatientVerdictKind
    sentence: str


@dataclass(frozen=True, slots=True)
class HeldFact:
    """A held entry, or one of somebody else for which the patient's messages wait; `behind` is how many wait."""

    entry: int
    destination: str
    reason: str
    since: datetime | None
    behind: int = 0
    particulars: tuple[str, ...] = ()
    visit: str = ""


@dataclass(frozen=True, slots=True)
class PlaceFact:
    """How far the patient's messages are at one destination, and the destination itself.

    `oldest_at`: when the oldest was received that is under way, `retry`: how its newest try failed. `last_at`: when the
    last was delivered. `state` of the destination is `ready` where it is well; `has_record`: None if it was not read.
    """

    destination: str
    delivered: int = 0
    under_way: int = 0
    rejected: int = 0
    discarded: int = 0
    filtered: int = 0
    oldest_at: datetime | None = None
    retry: str = ""
    last_at: datetime | None = None
    state: str = "ready"
    reason: str = ""
    has_record: bool | None = None


@dataclass(frozen=True, slots=True)
class LastFact:
    """The patient's newest message: its state and reason, what it was answered, and where, if a destination did it."""

    entry: int
    state: str
    reason: str
    received_at: datetime
    ack: str = ""
    destination: str = ""


@dataclass(frozen=True, slots=True)
class PatientFacts:
    """What a verdict is made of. `more`: there are more messages than these; `at_door`: those that ended there."""

    messages: int
    now: datetime
    last: LastFact | None = None
    held: tuple[HeldFact, ...] = ()
    places: tuple[PlaceFact, ...] = ()
    more: bool = False
    at_door: int = 0
    zone: tzinfo | None = field(default=None, compare=False)


def verdict(facts: PatientFacts) -> PatientVerdict:
    """Return what happened: what a person has to act on comes before what goes well."""
    found = ((kind, rule(facts)) for kind, rule in _RULES)
    kind, sentence = next((kind, sentence) for kind, sentence in found if sentence)
    return PatientVerdict(kind=kind, sentence=sentence)


def _nothing(facts: PatientFacts) -> str:
    return "" if facts.last else "Nothing: no message of this patient is in the journal any more"


def _held(facts: PatientFacts) -> str:
    if not facts.held:
        return ""
    one = facts.held[0]
    where = f" at {one.destination}" if len(facts.places) > 1 else ""
    what = f"Held{where} behind {one.entry}" if one.behind else f"Held{where}: message {one.entry}"
    entries = {held.entry for held in facts.held}
    others = f"; {len(entries)} messages are held in all" if len(entries) > 1 else ""
    behind = f"; {_messages(one.behind)} {'waits' if one.behind == 1 else 'wait'}" if one.behind else ""
    return f"{what}{_since(facts, one.since)}: {_why(one)}{behind}{others}"


def _why(one: HeldFact) -> str:
    about = f"visit {one.visit}: " if one.visit and one.reason.startswith(OF_VISITS) else ""
    said = ", ".join(part for part in one.particulars if part not in about)
    return f"{about}{_phrase(one.reason)}{f' ({said})' if said else ''}"


def _waiting(facts: PatientFacts) -> str:
    stuck = (place for place in facts.places if place.under_way and (place.state != "ready" or place.retry))
    place = next(stuck, None)
    if place is None:
        return ""
    is_gone = place.state == "removed"
    does = "is in no file any more" if is_gone else destination_words(place.state, place.reason or place.retry)
    return f"Waiting: {place.destination} {does}, {_messages(place.under_way)}{_since(facts, place.oldest_at)}"


def _refused(facts: PatientFacts) -> str:
    last = facts.last
    if last is None or last.state != "rejected":
        return ""
    what = f"rejected for {last.destination}" if last.destination else f"answered {last.ack or 'AR'}"
    return f"Refused: the last message ({last.entry}) was {what}: {_phrase(last.reason)}"


def _under_way(facts: PatientFacts) -> str:
    place = next((place for place in facts.places if place.under_way), None)
    if place is None:
        return ""
    since = _since(facts, place.oldest_at)
    return f"Under way: {_messages(place.under_way)} on the way to {place.destination}{since}"


def _undelivered(facts: PatientFacts) -> str:
    last, places = facts.last, [place for place in facts.places if place.delivered]
    if last is not None and last.state in {"discarded", "filtered"}:
        why = f": {_phrase(last.reason)}" if last.state == "filtered" and last.reason else ""
        before = "".join(f"; {place.delivered:,} before it at {place.destination}" for place in places)
        return f"Not delivered: the last message ({last.entry}) was {last.state}{why}{before}"
    if last is not None and not places:
        at = _time(facts, last.received_at)
        return f"Not delivered: {_messages(facts.messages)}, the last at {at}, for no destination"
    return ""


def _missing(facts: PatientFacts) -> str:
    names = [place.destination for place in facts.places if place.delivered and place.has_record is False]
    if not names:
        return ""
    return f"{_delivered(facts)}; but {_and(names)} {'has' if len(names) == 1 else 'have'} no record of the patient now"


def _delivered(facts: PatientFacts) -> str:
    there = [place for place in facts.places if place.delivered]
    last = max((place.last_at for place in there if place.last_at), default=None)
    when = f", {'the last ' if facts.messages > 1 else ''}at {_time(facts, last)}" if last else ""
    counts = {place.delivered for place in there}
    if len(counts) == 1:
        what = _share(facts, counts.pop(), _and([place.destination for place in there]))
    else:
        what = "; ".join(_share(facts, place.delivered, place.destination) for place in there)
    return f"Delivered: {what}{when}{_rest(facts)}"


def _share(facts: PatientFacts, count: int, where: str) -> str:
    if count != facts.messages:
        newest = "the newest " if facts.more else ""
        return f"{count:,} of {newest}{_messages(facts.messages)} {'is' if count == 1 else 'are'} at {where}"
    if facts.more:
        return f"the newest {_messages(count)} are at {where}"
    return f"its one message is at {where}" if count == 1 else f"all {_messages(count)} are at {where}"


def _rest(facts: PatientFacts) -> str:
    """Return what became of the others."""
    refused = facts.at_door + max((place.rejected for place in facts.places), default=0)
    discarded = max((place.discarded for place in facts.places), default=0)
    filtered = max((place.filtered for place in facts.places), default=0)
    counts = {"refused": refused, "discarded": discarded, "filtered": filtered}
    parts = [f"{count:,} {word}" for word, count in counts.items() if count]
    return f"; {', '.join(parts)}" if parts else ""


def _phrase(code: str) -> str:
    """Return what a reason means, as the end of a sentence: its first statement, without a capital and a full stop."""
    meaning = reason_of(code).meaning
    for end in ENDS:
        meaning = meaning.partition(end)[0]
    text = meaning.rstrip(".").replace("`", "")
    is_code = text[1:2].isupper() or text[1:2].isdigit()
    return text if is_code else text[:1].lower() + text[1:]


def _messages(count: int) -> str:
    return f"{count:,} message{'' if count == 1 else 's'}"


def _since(facts: PatientFacts, at: datetime | None) -> str:
    return f" since {_time(facts, at)}" if at else ""


def _time(facts: PatientFacts, at: datetime) -> str:
    """Return a time as a clock of the engine's machine shows it, with its day where that is not today."""
    here = at.astimezone(facts.zone)
    today = here.date() == facts.now.astimezone(facts.zone).date()
    return f"{here:%H:%M}" if today else f"{here:%Y-%m-%d %H:%M}"


def _and(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


_RULES: Final[tuple[tuple[PatientVerdictKind, Callable[[PatientFacts], str]], ...]] = (
    (PatientVerdictKind.NOTHING, _nothing),
    (PatientVerdictKind.HELD, _held),
    (PatientVerdictKind.WAITING, _waiting),
    (PatientVerdictKind.REFUSED, _refused),
    (PatientVerdictKind.UNDER_WAY, _under_way),
    (PatientVerdictKind.UNDELIVERED, _undelivered),
    (PatientVerdictKind.MISSING, _missing),
    (PatientVerdictKind.DELIVERED, _delivered),
)
