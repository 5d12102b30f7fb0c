"""The judge of a run: what the sender logged, the journal holds, the proxy saw and the service kept must agree.

Four logs, each written by the test's side: C (sendings and answers), J (the journal's rows and attempts), S (calls in
order, with the service's answers), and the service's patients at the end. The verdict is valid, invalid with every
violation, or unknown where the run proves nothing (too few answers, no fault fired, work left over).
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from typing import Any, Final
from urllib.parse import unquote

import orjson

from tests.crash.relays import Relayed, judged
from tests.flow.fold import Record, facts_of, fold, head, links_of, numbers_of
from tests.flow.proxy import PATIENT, Call
from tests.flow.rig import UNFINISHED, Row, Tried
from tests.flow.sender import Sending
from tests.flow.visits import agrees, number_of, said_of, visits

POSITIVE: Final = frozenset({"AA", "CA"})
MERGE: Final = f"{PATIENT}/$merge"
SUPERSEDED: Final = "superseded"
DEFINITE: Final = frozenset({200, 400, 401, 403, 404, 409, 412, 422, 429})


class Verdict(StrEnum):
    """What a run shows."""

    VALID = "valid"
    INVALID = "invalid"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class History:
    """All logs of one run.

    `faults` counts kills or failures that really happened; `held` are reasons that may hold. `visits` are those that
    the service kept; where there are none, they are not judged. `relays` are what receivers got of relays.
    """

    sent: Sequence[Sending]
    rows: Sequence[Row]
    attempts: Sequence[Tried]
    calls: Sequence[Call]
    patients: Mapping[str, Mapping[str, Any]]
    faults: int = 1
    least_answers: int = 1
    held: frozenset[str] = frozenset()
    visits: Sequence[Mapping[str, Any]] = ()
    relays: Sequence[Relayed] = ()


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict with what was found, each line beginning with the invariant's number."""

    verdict: Verdict
    violations: tuple[str, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)

    def report(self) -> str:
        """Return everything that was found, one line each."""
        return "\n".join((f"{self.verdict}: {dict(self.counts)}", *self.violations))


def judge(history: History) -> Judgement:
    """Judge a run by every invariant; all violations are listed."""
    found = tuple(violation for check in CHECKS for violation in check(history))
    answers = sum(line.code in POSITIVE for line in history.sent)
    counts = {
        "sent": len(history.sent),
        "accepted": answers,
        "unanswered": sum(not line.code for line in history.sent),
        "rows": len(history.rows),
        "effects": sum(call.took_effect for call in history.calls),
        "merges": sum(call.took_effect and call.path == MERGE for call in history.calls),
        "patients": len(history.patients),
        "faults": history.faults,
    }
    if found:
        return Judgement(Verdict.INVALID, found, counts)
    unknown = answers < history.least_answers or not history.faults
    return Judgement(Verdict.UNKNOWN if unknown else Verdict.VALID, (), counts)


def no_loss(history: History) -> Iterator[str]:
    """I1: what was accepted stands in the journal, byte for byte."""
    stored = {row.digest for row in history.rows}
    for line in history.sent:
        if line.code in POSITIVE and sha256(line.message.raw).digest() not in stored:
            yield f"I1 {line.message.control_id} was answered {line.code} and is not in the journal"


def terminal(history: History) -> Iterator[str]:
    """I2: every row has come to an end, and to no end that the run does not explain."""
    expected = {line.message.control_id: line.message.expected for line in history.sent}
    for row in history.rows:
        if row.state in UNFINISHED:
            yield f"I2 entry {row.seq} is still {row.state}"
        elif row.state == "held" and row.reason not in history.held:
            yield f"I2 entry {row.seq} is held: {row.reason}"
        elif row.state == "rejected" and expected.get(row.control_id) == "AA":
            yield f"I2 entry {row.seq} is rejected: {row.reason}"
    last = {line.message.control_id: line for line in history.sent if line.code}
    for line in last.values():
        if line.code != line.message.expected:
            yield f"I2 {line.message.control_id} was answered {line.code}, expected {line.message.expected}"


def no_phantom(history: History) -> Iterator[str]:
    """I3: every row was sent, and every effect comes from a row."""
    sent = {sha256(line.message.raw).digest() for line in history.sent}
    for row in history.rows:
        if row.digest not in sent:
            yield f"I3 entry {row.seq} was never sent"
    known = {stamp_of(row.raw) for row in history.rows}
    for call in effects(history):
        for stamp in call.stamps - known:
            yield f"I3 call {call.order} wrote {stamp}, which is of no entry"


def no_double_effect(history: History) -> Iterator[str]:
    """I4: one row for the same bytes, unless they were refused; one create for a number, one merge for a record."""
    for digest, count in Counter(row.digest for row in history.rows if row.state != "rejected").items():
        if count > 1:
            seqs = [row.seq for row in history.rows if row.digest == digest]
            yield f"I4 the same message is in the journal as entries {seqs}"
    creates: Counter[str] = Counter()
    merges: Counter[str] = Counter()
    for call in effects(history):
        if call.path == PATIENT:
            creates.update(numbers_of(call.json)[0])
        elif call.path == MERGE:
            merges[sides_of(call)[0]] += 1
    yield from (f"I4 {number} was created {count} times" for number, count in creates.items() if count > 1)
    yield from (f"I4 {source} was merged away {count} times" for source, count in merges.items() if count > 1)


def in_order(history: History) -> Iterator[str]:
    """I5: a patient's versions show the messages in journal order, and the journal keeps the order of each line."""
    order = {stamp_of(row.raw): row.seq for row in history.rows}
    for logical_id, versions in versions_of(history).items():
        newest = 0
        for call in versions:
            seq = max((order.get(stamp, 0) for stamp in call.stamps), default=newest)
            if seq < newest:
                yield f"I5 {logical_id}: entry {seq} was written after entry {newest} (call {call.order})"
            newest = max(newest, seq)
    seqs = {row.digest: row.seq for row in reversed(history.rows)}
    last: dict[int, tuple[int, str]] = {}
    for line in history.sent:
        seq = seqs.get(sha256(line.message.raw).digest())
        if seq is None or line.message.resend or not line.code:
            continue
        before, control_id = last.get(line.connection, (0, ""))
        if seq < before:
            yield f"I5 {line.message.control_id} (entry {seq}) stands before {control_id} (entry {before})"
        last[line.connection] = (max(seq, before), line.message.control_id)


def merged_right(history: History) -> Iterator[str]:
    """I6: numbers lead to one record exactly where the messages say so; nothing was written to a merged-away one."""
    records = expected(history)
    current = {number: patient for patient in history.patients.values() for number in numbers_of(patient)[0]}
    for number, record in records.items():
        there = current.get(number)
        if there is None:
            yield f"I6 nobody carries {number}"
            continue
        gone = replaced_by(there)
        if bool(gone) != bool(record.merged_into):
            yield f"I6 {number} is {'merged away' if gone else 'not merged away'} at the service"
        elif gone and not _leads(history, gone, head(records, number)):
            yield f"I6 {number} is merged into another record than {record.merged_into}"
        if gone and there.get("active") is not False:
            yield f"I6 {number} is merged away and active"
    for call in effects(history):
        yield from _written_after_merge(history, call)


def state_is_fold(history: History) -> Iterator[str]:
    """I7: every patient of the service says what an independent fold over the journal says, and there is no other."""
    records = expected(history)
    seen: set[str] = set()
    for logical_id, patient in history.patients.items():
        numbers, old = numbers_of(patient)
        seen |= numbers
        if len(numbers) != 1 or not numbers <= records.keys():
            yield f"I7 Patient/{logical_id} carries {sorted(numbers)}"
            continue
        record = records[next(iter(numbers))]
        if old - _retired(records, record):
            yield f"I7 Patient/{logical_id} carries old numbers {sorted(old)} that are not its own"
        if record.old_numbers - old:
            yield f"I7 Patient/{logical_id} lacks old numbers {sorted(record.old_numbers - old)}"
        if not record.merged_into and _linked(history, patient) != _expected_links(records, record):
            yield f"I7 Patient/{logical_id} ({record.number}) is linked to {sorted(_linked(history, patient))}"
        if facts_of(patient) != record.facts:
            yield f"I7 Patient/{logical_id} ({record.number}) says {facts_of(patient)}, the messages {record.facts}"
    yield from (f"I7 {number} is nowhere at the service" for number in records.keys() - seen)


def visits_are_fold(history: History) -> Iterator[str]:
    """I7: every visit of the service says what an independent fold says, once, and is its patient's."""
    records, wanted = expected(history), visits(row.raw for row in history.rows if is_applied(row))
    seen: Counter[str] = Counter()
    for encounter in history.visits:
        number = number_of(encounter)
        seen[number] += 1
        visit = wanted.get(number)
        if visit is None or not agrees(encounter, visit):
            yield f"I7 visit {number} says {said_of(encounter)}, the messages {visit}"
            continue
        record = head(records, visit.patient)
        holder = history.patients[str(encounter["subject"]["reference"]).rpartition("/")[2]]
        if record is None or record.number not in numbers_of(holder)[0]:
            yield f"I7 visit {number} belongs to {sorted(numbers_of(holder)[0])}, not to {visit.patient}"
    yield from (f"I7 visit {number} is kept {count} times" for number, count in seen.items() if count > 1)
    if history.visits:
        yield from (f"I7 visit {number} is nowhere at the service" for number in wanted.keys() - seen.keys())


def honest_refusal(history: History) -> Iterator[str]:
    """I8: what was refused, and never accepted later, has no effect."""
    accepted = {line.message.stamp for line in history.sent if line.code in POSITIVE}
    unsure = {line.message.stamp for line in history.sent if not line.code}
    refused = {line.message.stamp for line in history.sent if line.code} - accepted - unsure
    for call in effects(history):
        yield from (f"I8 call {call.order} wrote {stamp}, which was refused" for stamp in call.stamps & refused)


def read_before_writing_again(history: History) -> Iterator[str]:
    """I9: a create or merge of which it is not known how it ended is sent again only after a read of its subject."""
    unsure: dict[str, int] = {}
    for call in history.calls:
        if call.method == "GET":
            told = f"{call.path} {unquote(call.query)} {call.answer.decode(errors='replace')}"
            for subject in [one for one in unsure if one in told]:
                del unsure[subject]
        elif call.method == "POST" and call.writes:
            subjects = {sides_of(call)[0]} if call.path == MERGE else numbers_of(call.json)[0]
            for subject in subjects & unsure.keys():
                yield f"I9 call {call.order} repeats call {unsure[subject]} without a read"
            if call.told not in DEFINITE:
                unsure |= dict.fromkeys(subjects, call.order)


def settled(history: History) -> Iterator[str]:
    """I9: an entry that is done leaves no last attempt without an outcome."""
    states = {row.seq: row.state for row in history.rows}
    last = {tried.seq: tried for tried in history.attempts}
    for seq, tried in last.items():
        if states.get(seq) == "delivered" and tried.status is None:
            yield f"I9 entry {seq} is delivered and its last attempt ({tried.method}) has no outcome"


def relayed_in_order(history: History) -> Iterator[str]:
    """I10 to I13: each receiver of a relay got what is delivered there, in order, and repeats follow faults only."""
    for relayed in history.relays:
        yield from judged(relayed, history.faults)


def superseded_by_a_later_update(history: History) -> Iterator[str]:
    """I14: what is superseded names a later delivered update of its patient, and only such lies between the two."""
    rows = {row.seq: row for row in history.rows}
    for row in history.rows:
        if row.reason != SUPERSEDED:
            continue
        newest = rows.get(newest_of(row))
        if newest is None or newest.seq <= row.seq or newest.state != "delivered":
            yield f"I14 entry {row.seq} is superseded by {newest_of(row)}, which was not delivered after it"
            continue
        among = (one for one in history.rows if row.seq <= one.seq < newest.seq and one.state != "rejected")
        for one in among:
            names = named_in(one.raw) & named_in(row.raw)
            if names and (one.reason != SUPERSEDED or newest_of(one) != newest.seq):
                yield f"I14 entry {row.seq} is superseded by {newest.seq}, past entry {one.seq} of {sorted(names)}"
        if kind_of(newest.raw) != kind_of(row.raw) or not named_in(newest.raw) & named_in(row.raw):
            yield f"I14 entry {row.seq} is superseded by {newest.seq}, which is another event or of another patient"


def newest_of(row: Row) -> int:
    """Return the number of the entry by which one is superseded, 0 if it names none."""
    notes = (str(note).split() for note in orjson.loads(row.notes or "[]"))
    return next((int(note[1]) for note in notes if note[0] == "superseded-by"), 0)


def named_in(raw: bytes) -> set[bytes]:
    """Return the numbers of a message in PID-3 and MRG-1."""
    lines = [line.split(b"|") for line in raw.split(b"\r")]
    return {line[3 if line[0] == b"PID" else 1].split(b"^")[0] for line in lines if line[0] in {b"PID", b"MRG"}}


def kind_of(raw: bytes) -> bytes:
    """Return the trigger event of a message."""
    return raw.split(b"\r")[0].split(b"|")[8].split(b"^")[1]


CHECKS: Final = (
    no_loss,
    terminal,
    no_phantom,
    no_double_effect,
    in_order,
    merged_right,
    state_is_fold,
    visits_are_fold,
    honest_refusal,
    read_before_writing_again,
    settled,
    relayed_in_order,
    superseded_by_a_later_update,
)


def expected(history: History) -> dict[str, Record]:
    """Return what the journal's delivered messages make of the patients."""
    return fold(row.raw for row in history.rows if is_applied(row))


def is_applied(row: Row) -> bool:
    """Whether what a row says must be at the service: it was delivered, or a later one that says all of it was."""
    return row.state == "delivered" or row.reason == SUPERSEDED


def effects(history: History) -> Iterable[Call]:
    """Return the calls by which the service changed something."""
    return (call for call in history.calls if call.took_effect)


def versions_of(history: History) -> dict[str, list[Call]]:
    """Return the writes of each patient in the order of the versions that the service gave."""
    found: defaultdict[str, list[Call]] = defaultdict(list)
    for call in effects(history):
        if call.path != MERGE:
            found[call.logical_id].append(call)
    return {key: sorted(calls, key=lambda call: call.version) for key, calls in found.items()}


def sides_of(call: Call) -> tuple[str, str]:
    """Return the ids of a merge's source and survivor."""
    sides = {item["name"]: item["valueReference"]["reference"].rpartition("/")[2] for item in call.json["parameter"]}
    return sides["source-patient"], sides["target-patient"]


def stamp_of(raw: bytes) -> str:
    """Return the telephone number in PID-13 that names a message of the feed."""
    pid = next(line.split(b"|") for line in raw.split(b"\r") if line.startswith(b"PID|"))
    return pid[13].split(b"^")[6].decode()


def replaced_by(patient: Mapping[str, Any]) -> str:
    """Return the id of the record that replaced this one, empty where none did."""
    links = (link for link in patient.get("link", []) if link["type"] == "replaced-by")
    return next((str(link["other"]["reference"]).rpartition("/")[2] for link in links), "")


def _leads(history: History, logical_id: str, record: Record | None) -> bool:
    while following := replaced_by(history.patients[logical_id]):
        logical_id = following
    return record is not None and record.number in numbers_of(history.patients[logical_id])[0]


def _written_after_merge(history: History, merge: Call) -> Iterator[str]:
    if merge.path != MERGE:
        return
    source = sides_of(merge)[0]
    for call in effects(history):
        if call.order > merge.order and call.method == "PUT" and call.logical_id == source:
            yield f"I6 call {call.order} wrote to Patient/{source}, merged away by call {merge.order}"


def _linked(history: History, patient: Mapping[str, Any]) -> set[str]:
    """Return the numbers of the records that a patient is linked to, followed through merges, without itself."""
    numbers: set[str] = set()
    for logical_id in links_of(patient):
        there = history.patients[logical_id]
        while following := replaced_by(there):
            there = history.patients[following]
        numbers |= numbers_of(there)[0]
    return numbers - numbers_of(patient)[0]


def _expected_links(records: Mapping[str, Record], record: Record) -> set[str]:
    heads = (head(records, number) for number in record.links)
    return {one.number for one in heads if one is not None} - {record.number}


def _retired(records: Mapping[str, Record], record: Record) -> set[str]:
    """Return every number that may stand on a record with `use` old: its own, and those merged into it."""
    merged = {one.number for one in records.values() if one.merged_into and head(records, one.number) is record}
    inherited = {number for one in records.values() if one.number in merged for number in one.old_numbers}
    return record.old_numbers | merged | inherited
