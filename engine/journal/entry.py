"""Entries: the states a message goes through in the journal, the moves between them, and what is recorded."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final, Literal

from engine.errors import ForbiddenMoveError
from engine.http.request import HttpRequest


class State(StrEnum):
    """The state of a delivery; that of an entry is the one of its least finished delivery.

    WAITING: behind something older of its patient. HELD: a dead letter that keeps its place until a person has looked.
    RECEIVED with a time that is due later: a retry.
    """

    RECEIVED = "received"
    CLAIMED = "claimed"
    WAITING = "waiting"
    DELIVERED = "delivered"
    FILTERED = "filtered"
    HELD = "held"
    REJECTED = "rejected"
    DISCARDED = "discarded"


class AckOutcome(StrEnum):
    """What became of the acknowledgement; never a matter of the delivery state."""

    OWED = "owed"
    SENT = "sent"
    UNSENT = "unsent"
    NOT_OWED = "not_owed"


_OPEN_AGAIN: Final = frozenset({State.RECEIVED, State.WAITING})

MOVES: Final[Mapping[State, frozenset[State]]] = {
    State.RECEIVED: frozenset({State.CLAIMED, State.WAITING, State.DISCARDED}),
    State.WAITING: frozenset({State.RECEIVED, State.DISCARDED}),
    State.CLAIMED: frozenset(
        {State.DELIVERED, State.FILTERED, State.HELD, State.REJECTED, State.RECEIVED, State.WAITING}
    ),
    State.HELD: _OPEN_AGAIN | {State.DISCARDED},
    State.DELIVERED: _OPEN_AGAIN,
    State.REJECTED: _OPEN_AGAIN,
    State.DISCARDED: _OPEN_AGAIN,
    State.FILTERED: _OPEN_AGAIN,
}

LEAST_FINISHED: Final = (
    State.WAITING,
    State.RECEIVED,
    State.CLAIMED,
    State.HELD,
    State.REJECTED,
    State.DISCARDED,
    State.DELIVERED,
    State.FILTERED,
)

# What a filter calls an entry that is held, at a destination or on arrival, or that a destination's delivery rejected.
# What was refused on arrival is not among it: its sender was told, and has to send it again.
FAILED: Final = "failed"
FAILED_STATES: Final = frozenset({State.HELD, State.REJECTED})
StateFilter = State | Literal["failed"]

# The flag of an entry that came in while its channel was in shadow: it is not delivered until somebody replays it.
SHADOW: Final = "shadow"
# The flag of one that somebody replayed since: it is delivered as any other.
FROM_SHADOW: Final = "from-shadow"
# The flag of an entry that came in while its channel was in a load.
LOAD: Final = "in-load"
# Why an entry has no delivery of its own at a destination, and the note of it that names the entry delivered instead.
SUPERSEDED: Final = "superseded"
SUPERSEDED_BY: Final = "superseded-by"
# The flag of an entry that a filter has decided about, with the name of its rule.
BY_RULE: Final = "by-rule"
# The flag of a new entry of the same bytes as an earlier one, which took no effect.
SENT_AGAIN: Final = "sent-again"

# The methods of attempts at relays: a message that was sent, and an application acknowledgement that came later. The
# first code of such an attempt is MSA-1.
SENT, LATER = "MLLP", "ACK"

# The lane of all that a destination gets in the order in which it came in; no patient has it.
FEED: Final = 0

UNFINISHED: Final = frozenset({State.WAITING, State.RECEIVED, State.CLAIMED, State.HELD})


def check_move(before: State, after: State) -> None:
    """Raise ForbiddenMoveError unless an entry may go from one state to the other."""
    if after not in MOVES[before]:
        raise ForbiddenMoveError(f"an entry that is {before} cannot become {after}")


@dataclass(frozen=True, slots=True, repr=False)
class NewEntry:
    """A message as it is to be recorded.

    `patients`: identity keys (`system|value`), one group a patient. `unite`: all groups are one patient from now on
    (a merge, a change of identifier). `state`: RECEIVED (needs `destinations`), or FILTERED, REJECTED, HELD at the
    door (then there are no deliveries). `where_known`: destinations apart from these, to which it goes if one of its
    patients is there by what went there before. `parent`: the entry this one was edited from. `in_feed_order`:
    destinations that get it behind all that came in before it, whomever that is about. `due`: destinations that get it
    at a time and not before.
    """

    channel: str
    peer: str
    source: str
    control_id: str
    event: str
    version: str
    raw: bytes
    received_at: datetime
    event_at: datetime | None = None
    visit: str = ""
    patients: tuple[tuple[str, ...], ...] = ()
    unite: bool = False
    state: State = State.RECEIVED
    reason: str = ""
    flags: tuple[str, ...] = ()
    destinations: tuple[str, ...] = ()
    acknowledgement: bytes = b""
    ack_code: str = ""
    ack_outcome: AckOutcome = AckOutcome.NOT_OWED
    mapping: str = ""
    batch: str = ""
    parent: int | None = None
    where_known: tuple[str, ...] = ()
    in_feed_order: frozenset[str] = frozenset()
    due: Mapping[str, datetime] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, repr=False)
class Recorded:
    """What the journal made of a message; of a duplicate, all that is said here is said of the first receipt.

    `flags`: those given, and `control-id-reused` (same channel, source and control id, other bytes), `sent-again` (the
    same bytes, of which the earlier receipt took no effect), `lane-crowded` (more than 50 identities in one lane).
    `destinations`: where it goes; empty for a duplicate.
    """

    seq: int
    duplicate: bool
    acknowledgement: bytes
    ack_code: str
    state: State
    flags: tuple[str, ...] = ()
    destinations: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, repr=False)
class RequestOutcome:
    """What came of the intent of that number; `status` is 0 where no answer came, `body` is the answer's.

    `request`: what was sent, where no intent was written before.
    """

    number: int
    status: int
    codes: tuple[str, ...]
    failure: str
    milliseconds: float
    body: bytes = b""
    request: HttpRequest | None = None


@dataclass(frozen=True, slots=True, repr=False)
class Claimed:
    """A delivery to carry out now; it heads all its lanes.

    `attempts_made`: number of the last intent journaled. `tries`: how often it was settled with a retry. `open_intent`:
    an intent whose outcome is not known (a kill came between): read before writing. `forced`: a replay of something
    older than what was applied, asked for by an operator. `released`: somebody let it go on, or replayed it.
    `digest`: SHA-256 of the bytes that came in.
    `shadow`: it came in while its channel was in shadow, and nobody has replayed it since: it is only tried.
    `decided`: the holds that somebody has decided by a release, each a code, and a place where there are several.
    `foreign`: another node had one of its lanes last, so that what is remembered of its patient may be old.
    """

    seq: int
    destination: str
    raw: bytes
    channel: str
    source: str
    control_id: str
    event: str
    received_at: datetime
    attempts_made: int
    tries: int
    open_intent: HttpRequest | None
    lanes: tuple[int, ...]
    replay: bool
    forced: bool
    released: bool = False
    digest: bytes = b""
    shadow: bool = False
    foreign: bool = False
    decided: frozenset[str] = frozenset()


# What an identifier may be to its record.
KNOWN_STATUSES: Final = frozenset({"current", "old", "merged-away", "chosen", "confirmed"})


@dataclass(frozen=True, slots=True, repr=False)
class KnownIdentity:
    """An identifier at a destination and its record: `current`, `old` or `merged-away` (then `survivor` is an id).

    `chosen`: an operator chose this one of several records for it; `confirmed` once that record bore it.
    """

    destination: str
    system: str
    value: str
    logical_id: str
    status: str = "current"
    survivor: str = ""


@dataclass(frozen=True, slots=True, repr=False)
class Ownership:
    """What one source owns of a resource (`Patient/<id>`) at a destination, complete: digests by slice."""

    destination: str
    resource: str
    source: str
    slices: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True, repr=False)
class MergeSeen:
    """A merge that a destination has carried out, by the keys (`system|value`) of both sides."""

    destination: str
    source_key: str
    survivor_key: str
    seq: int


@dataclass(frozen=True, slots=True)
class SentResource:
    """What a relay was last sent of a resource (`Patient/1`) of a FHIR server.

    `version`: the server's, '' where it told none. `state`: what tells one change from another, as its reader wrote it.
    """

    resource: str
    version: str
    state: str


@dataclass(frozen=True, slots=True)
class OwnWrite:
    """A version of a resource that the engine has written itself, at a server, for a channel.

    `version` is '' for a deletion whose answer named none. `moment`: when it was written by the server's clock.
    """

    server: str
    resource: str
    version: str
    channel: str
    moment: datetime | None = None


class FollowUpKind(StrEnum):
    """What a destination is asked for once an entry was delivered there."""

    LOOKUP = "lookup"
    NOTICE = "notice"


@dataclass(frozen=True, slots=True)
class FollowUpRequest:
    """What a destination is to be asked for because of a delivery, and of which record (`Patient/1`); once a kind.

    `visit`: the visit that the message is about (`Encounter/1`), empty where it is about none.
    """

    kind: FollowUpKind
    patient: str
    visit: str = ""


@dataclass(frozen=True, slots=True, repr=False)
class Settlement:
    """How a delivery ended, or that it is to be tried again (`state` RECEIVED with `retry_at`).

    `keep_lane` false lets the lane flow past a held delivery (`on_held: continue`). `applied_at`: the event time that
    is now applied at the destination, None where nothing was applied or the message has no time. `inherited`: pairs of
    a record that was merged away and its survivor (`Patient/1`): what was listed within the one is within the other.
    `follow_ups`: what the destination is to be asked for from now on, because of this delivery. `sent`: what the relay
    has of a resource from now on; `own_writes`: the versions that the delivery has written. `superseded`: claimed
    entries ahead of it that need no delivery of their own, because this one said all that they say.
    """

    seq: int
    destination: str
    state: State
    at: datetime
    reason: str = ""
    notes: tuple[str, ...] = ()
    retry_at: datetime | None = None
    outcomes: tuple[RequestOutcome, ...] = ()
    plan: bytes = b""
    mapping: str = ""
    known: tuple[KnownIdentity, ...] = ()
    owned: tuple[Ownership, ...] = ()
    merges: tuple[MergeSeen, ...] = ()
    inherited: tuple[tuple[str, str], ...] = ()
    applied_at: datetime | None = None
    source: str = ""
    keep_lane: bool = True
    follow_ups: tuple[FollowUpRequest, ...] = ()
    sent: SentResource | None = None
    own_writes: tuple[OwnWrite, ...] = ()
    superseded: tuple[int, ...] = ()
