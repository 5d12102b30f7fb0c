"""What is shown of an entry: in full, without patient data (its facts), or why it is mapped as it is.

Facts leave out message, acknowledgement, segments, lane, visit, digest, plan, bodies, headers, addresses, and what an
operator wrote. What is added to an entry stays out of them until it is declared there.
"""

from typing import Annotated

from pydantic import Field

from engine.journal.entry import State
from engine.ops.views.answer import Answer, AnyJson, Body, Count, EntrySeq, Headers, Time, known_as
from engine.ops.views.segments import Named, SegmentView


class RowFacts(Answer, facts=True):
    """A row of a list of entries, without patient data."""

    entry: EntrySeq
    received_at: Time
    channel: str
    source: str
    control_id: str
    event: str
    state: State
    reason: str
    ack: Annotated[str | None, known_as("ack", "ack_code")]
    ack_outcome: str
    flags: tuple[str, ...]
    receipts: Count


class Row(RowFacts):
    """A row of a list of entries."""

    visit: str


class Before(Answer, facts=True):
    """Where a delivery stood before it was replayed."""

    state: str
    reason: str
    mapping: str


class Replay(Answer, facts=True):
    """One replay of an entry at a destination."""

    destination: str
    act: str
    by: str
    at: Time | None
    run: Count | None
    forced: bool
    before: Before


class LineageFacts(Answer, facts=True):
    """The entry that this one was edited from, those edited from it, and its replays, newest first."""

    parent: Count | None
    children: tuple[Count, ...]
    replays: tuple[Replay, ...]


class Difference(Answer):
    """One part of a message that an edit changed."""

    path: str
    before: str | None
    after: str | None


# As the journal and the pipeline have them.
Differences = Annotated[tuple[Difference, ...], known_as("differences", "changes")]


class EditView(Answer):
    """The edit by which an entry was made."""

    by: str
    at: Time | None
    differences: Differences


class Lineage(LineageFacts):
    """The lineage, and what was edited."""

    edit: EditView | None


class Lane(Answer):
    """The entries before and after an entry that are about the same patients, oldest first."""

    before: tuple[Row, ...]
    after: tuple[Row, ...]


class Step(Answer, facts=True):
    """One step of an entry: `received`, `PUT 200`, `delivered`."""

    at: Time
    what: str
    destination: str
    milliseconds: float | None


class Timing(Answer, facts=True):
    """The steps of an entry in time order; `seconds` from received to the last settlement."""

    received_at: Time
    settled_at: Time | None
    seconds: float | None
    steps: tuple[Step, ...]


class AttemptFacts(Answer, facts=True):
    """One request to a destination.

    Of a relay `method` is MLLP, or ACK for an application acknowledgement that came after the delivery had ended;
    `ack` is its MSA-1, and `status` the HTTP status that says the same. `ack` is empty of HTTP, and without an answer.
    """

    number: Count
    method: str
    at: Time
    status: Count | None
    ack: str = ""
    codes: tuple[str, ...]
    failure: str
    milliseconds: float


class Attempt(AttemptFacts):
    """One request to a destination, with its URL, headers and bodies; `requests` are those of a transaction."""

    url: str
    headers: Headers
    body: Body
    answer: Body
    requests: tuple[str, ...] = ()


class FollowUpFacts(Answer, facts=True):
    """The state of a follow-up of a delivery, a look-up or a notice: waiting, accepted, refused or given-up."""

    state: str
    reason: str
    codes: tuple[str, ...]
    tries: Count
    due_at: Time | None
    settled_at: Time | None


class FollowUp(FollowUpFacts):
    """A follow-up, with the patient whom it is about, and the address that tells how a look-up ended."""

    patient: str
    handle: str


class DeliveryFacts(Answer, facts=True):
    """The state of an entry at one destination."""

    destination: str
    state: State
    reason: str
    notes: tuple[str, ...]
    waits_for: Count | None
    tries: Count
    due_at: Time | None
    settled_at: Time | None
    mapping: str
    replay: AnyJson
    by: str
    attempts: tuple[AttemptFacts, ...]
    lookup: FollowUpFacts | None = None
    notice: FollowUpFacts | None = None


class Involved(Answer):
    """A record that a hold is about: what it is in this, and what it had then: numbers (`system|value`), its person."""

    record: str
    role: str
    numbers: tuple[str, ...]
    person: str = ""


class HeldAbout(Answer):
    """The records that an entry's hold at a destination is about."""

    destination: str
    records: tuple[Involved, ...]


class NamedEntry(Named):
    """Whom an entry's message is about, and where it is held the records that the hold is about."""

    held: tuple[HeldAbout, ...] = ()


class Delivery(DeliveryFacts):
    """The state of an entry at one destination, with its plan, and the records that a hold is about."""

    attempts: tuple[Attempt, ...]
    lookup: FollowUp | None = None
    notice: FollowUp | None = None
    plan: Body
    involved: tuple[Involved, ...] = ()


class EntryFacts(RowFacts, facts=True):
    """An entry without patient data."""

    peer: str
    version: str
    event_at: Time | None
    sound: bool
    body_removed_at: Annotated[Time | None, known_as("body_removed_at", "worn_at")]
    mapping: str
    batch: AnyJson
    parent: Count | None
    lineage: LineageFacts
    timing: Timing
    deliveries: tuple[DeliveryFacts, ...]


class Entry(Row, EntryFacts):
    """One entry in full; `who` is whom its message is about.

    `charset`: what holds where MSH-18 is empty, as the channel says; '' where the channel is not known here.
    `guessed_charset`: what the message was read in where neither says, else ''.
    """

    sha256: str
    who: Named
    message: str
    charset: str = ""
    guessed_charset: str = ""
    acknowledgement: str
    segments: tuple[SegmentView, ...]
    lineage: Lineage
    lane: Lane
    deliveries: tuple[Delivery, ...]


class Raw(Answer):
    """The exact bytes that came in."""

    entry: Count
    base64: str


class Rule(Answer):
    """A rule of a mapping, and its place."""

    name: str
    file: str
    line: Count


class SentBy(Rule):
    """A filter of a channel that sends messages to some destinations only, and its place."""

    send_to: tuple[str, ...]


class RelayedTo(Answer):
    """Whether a relay gets a message, and how: as it came in, or `edited`.

    `why`: that it is not delivered elsewhere (`relay: all`), or why it is not sent; `rule`: a filter that said so.
    """

    destination: str
    sent: bool
    edited: bool
    why: str
    rule: str

    @property
    def words(self) -> str:
        """The same as one statement."""
        why = f"the filter {self.rule}" if self.rule else self.why
        if not self.sent:
            return f"not sent to the relay {self.destination}: {why}"
        how = "edited" if self.edited else "as it came in"
        return f"sent to the relay {self.destination} {how}" + (f", and to no FHIR server: {why}" if self.why else "")


class ReadBeside(Answer):
    """A field that a function or a condition read besides its rule's own, and its value."""

    source: str
    segment: Count = 0
    raw: AnyJson = None


class Condition(Answer):
    """A condition that was asked, whether it let the value through, and what it read."""

    element: str
    file: str
    line: Count
    text: str
    passed: bool
    read: tuple[ReadBeside, ...] = ()


class RuleText(Answer):
    """A line of a mapping, and what it reads."""

    file: str
    line: Count
    reads: str


class LineInForce(Answer):
    """A line of a mapping that held for the message, those of elements aside; `read`: fields it names, with values."""

    file: str
    line: Count
    key: str
    text: str
    read: tuple[ReadBeside, ...] = ()


class Through(Answer):
    """A line by which a rule was asked."""

    file: str
    line: Count
    text: str


class Element(Answer):
    """How one element was made; `made` is null where its rule made nothing, or a condition stopped it."""

    element: str
    file: str
    line: Count
    rule: str
    source: str
    segment: Count
    raw: AnyJson
    functions: tuple[dict[str, AnyJson], ...]
    rows: tuple[dict[str, AnyJson], ...]
    made: AnyJson
    asked: bool
    record: Count
    read: tuple[ReadBeside, ...] = ()
    conditions: tuple[Condition, ...] = ()
    warnings: tuple[str, ...] = ()
    key: str = ""
    through: tuple[Through, ...] = ()


class Unread(Answer):
    """A field that no rule reads."""

    path: str
    name: str


class Explained(Answer):
    """Why an entry is mapped as it is; `error` where it cannot be mapped, `error` alone where it cannot be read.

    `mapping` is the hash of the mapping, to be compared with the one that a delivery recorded; `mapping_name` is its
    name. `destination`: whose mapping it is, empty for the channel's; of a relay, which has none, only `relays` is
    given. `own_mappings`: the channel's destinations that have another than the channel, with its name.
    """

    entry: Count
    destination: str = ""
    mapping_name: str = ""
    own_mappings: dict[str, str] = Field(default_factory=dict)
    event: str = ""
    control_id: str = ""
    action: str = ""
    rule: Rule | None = None
    sent_by: SentBy | None = None
    relays: tuple[RelayedTo, ...] = ()
    mapping: str = ""
    elements: tuple[Element, ...] = ()
    error: str = ""
    rules: tuple[RuleText, ...] = ()
    nearest: str = ""
    unread: tuple[Unread, ...] = ()
    conditions: tuple[Condition, ...] = ()
    lines: tuple[LineInForce, ...] = ()
