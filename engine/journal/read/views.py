"""What is asked of the journal's readers and what they answer: filters, rows, pages, an entry in full, counts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from engine.http.request import HttpRequest
from engine.journal.entry import AckOutcome, RequestOutcome, State, StateFilter


@dataclass(frozen=True, slots=True, repr=False)
class Filters:
    """Which entries to list; what is None or empty filters nothing.

    `patient`: an identity key (`system|value`), or a bare value in any system. `source`: `MSH-3|MSH-4`. `event`: A01.
    `outcome`: a note, a flag, or a code of an OperationOutcome. `since`: received then or later, `until`: before then.
    `text`: words that the message holds, read in the `charsets` of their channels where MSH-18 is empty.
    """

    state: StateFilter | None = None
    channel: str = ""
    source: str = ""
    event: str = ""
    control_id: str = ""
    reason: str = ""
    outcome: str = ""
    patient: str = ""
    visit: str = ""
    text: str = ""
    since: datetime | None = None
    until: datetime | None = None
    charsets: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True, repr=False)
class EntryRow:
    """One entry in a list."""

    seq: int
    channel: str
    source: str
    control_id: str
    event: str
    visit: str
    received_at: datetime
    state: State
    reason: str
    ack_code: str
    ack_outcome: AckOutcome
    flags: tuple[str, ...]
    receipts: int


@dataclass(frozen=True, slots=True, repr=False)
class EntryPage:
    """A page of a list; the next one begins `before` that number, None where there is nothing older.

    `searched_back_to`: where the time for one answer was over before the page was full, None where it is whole.
    """

    rows: tuple[EntryRow, ...]
    before: int | None
    searched_back_to: datetime | None


@dataclass(frozen=True, slots=True, repr=False)
class AttemptView:
    """A request and what came of it; `outcome` is None where that is not known."""

    intent: HttpRequest
    outcome: RequestOutcome | None


@dataclass(frozen=True, slots=True, repr=False)
class FollowUpView:
    """The state of a follow-up of a delivery; `settled_at` when it ended, `due_at` when it is tried next."""

    state: str
    reason: str
    codes: tuple[str, ...]
    patient: str
    handle: str
    tries: int
    due_at: datetime | None
    settled_at: datetime | None


@dataclass(frozen=True, slots=True, repr=False)
class DeliveryView:
    """The state of an entry at one destination; `waits_for` is the entry in front of it in a lane, None for none."""

    destination: str
    state: State
    reason: str
    notes: tuple[str, ...]
    lanes: tuple[int, ...]
    tries: int
    due_at: datetime | None
    settled_at: datetime | None
    mapping: str
    replay: bool
    by: str
    plan: bytes
    waits_for: int | None
    attempts: tuple[AttemptView, ...]
    lookup: FollowUpView | None
    notice: FollowUpView | None


@dataclass(frozen=True, slots=True, repr=False)
class EntryView:
    """One entry in full; `sound` says whether the bytes still have the digest they came with.

    `worn_at`: when retention took the bytes, None where they are there.
    """

    row: EntryRow
    peer: str
    version: str
    event_at: datetime | None
    sha256: str
    mapping: str
    batch: str
    parent: int | None
    raw: bytes
    acknowledgement: bytes
    sound: bool
    worn_at: datetime | None
    deliveries: tuple[DeliveryView, ...]
    children: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DestinationQueue:
    """What is not delivered at a destination, by state, and when the oldest that is unfinished was received."""

    states: dict[str, int]
    oldest_at: datetime | None


@dataclass(frozen=True, slots=True)
class JournalStats:
    """Counts over the whole journal.

    `entries`: recorded so far; retention does not count back. `at_door`: those that the door refused, filtered or held.
    `deliveries`: those unfinished, rejected or discarded, by destination and state. `oldest_unfinished_at`: when the
    oldest unfinished entry was received.
    """

    entries: int
    last_seq: int
    at_door: dict[str, int]
    deliveries: dict[str, dict[str, int]]
    oldest_unfinished_at: datetime | None
    queues: dict[str, DestinationQueue]


@dataclass(frozen=True, slots=True)
class Noted:
    """How many entries of a channel bear a note, and the newest; `back_to` where only the newest were counted.

    `destinations`: where the newest bears it.
    """

    note: str
    channel: str
    entries: int
    last: int
    back_to: datetime | None
    destinations: tuple[str, ...] = ()


class Count(NamedTuple):
    """How many times one kind (a state, or the bucket of a wait) was seen in the bucket that begins `at`."""

    who: str
    kind: str
    at: datetime
    times: int


class Traffic(NamedTuple):
    """What came by channel and state at the door, ended by destination and state, was answered by channel and wait."""

    arrived: tuple[Count, ...]
    ended: tuple[Count, ...]
    answered: tuple[Count, ...]
