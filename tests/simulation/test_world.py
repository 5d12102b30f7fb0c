"""The stream keeps the rules of a hospital, whatever the seed; held on the bytes alone."""

from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from itertools import combinations, islice, pairwise

import hl7
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.hl7.events import structure
from engine.hl7.message import parse
from engine.simulation.world import START, range_of, simulate
from tests.simulation.wire import CODECS, Told, day, told

SEEDS = st.integers(0, 2**32)
ADMITS = frozenset({"A01", "A04", "A05", "A14"})
BEGINS = frozenset({"A01", "A04"})
FEW = settings(max_examples=10, deadline=None)


def in_order(seed: int, patients: int = 12, events: int = 500) -> list[Told]:
    """Return the messages of a seed as they happened: without resends, late ones back in their place."""
    unique = [one for one in day(seed, patients, events) if one.message.note != "duplicate"]
    return sorted(unique, key=lambda one: (one.message.event_at, int(one.message.control_id.rpartition("-")[2])))


@FEW
@given(SEEDS)
def test_the_same_seed_gives_the_same_bytes(seed: int) -> None:
    """A stream can be repeated from its seed, and another seed gives another one."""
    first = [message.raw for message in islice(simulate(seed, 9), 120)]
    assert first == [message.raw for message in islice(simulate(seed, 9), 120)]
    assert first != [message.raw for message in islice(simulate(seed + 1, 9), 120)]


@FEW
@given(SEEDS)
def test_both_parsers_read_every_message(seed: int) -> None:
    """Our parser and python-hl7 cut each message alike, and the header says what the message is."""
    for one in islice(simulate(seed, 9), 150):
        message = parse(one.raw)
        other = hl7.parse("\r".join(segment.text for segment in message.segments) + "\r")
        assert [str(segment[0]) for segment in other] == [segment.name for segment in message.segments]
        assert (message.message_type, message.trigger, message.control_id) == ("ADT", one.trigger, one.control_id)
        assert message.write() == one.raw
        assert message.source.split("|")[0] == one.sender
        said = message.segments[0].repetitions(9)[0].component(3)
        assert said in {"", structure(message.version, one.trigger)}  # MSH-9.3


@FEW
@given(SEEDS)
def test_time_goes_forward_but_for_late_messages_and_resends(seed: int) -> None:
    """What happened later goes out later, unless it was held back; a resend is the same bytes."""
    newest, seen = datetime.min.replace(tzinfo=UTC), {}
    for one in day(seed, 12, 500):
        message = one.message
        if message.note == "duplicate":
            assert seen[message.control_id] == message.raw
            continue
        assert message.control_id not in seen
        seen[message.control_id] = message.raw
        if message.note == "late":
            assert message.trigger in {"A08", "A31"}
            continue
        assert message.event_at >= newest
        newest = message.event_at
        assert one.field("EVN", 2) == f"{newest:%Y%m%d%H%M%S}"[: len(one.field("EVN", 2))]


@FEW
@given(SEEDS)
def test_no_visit_is_told_of_before_it_begins_or_ends_twice(seed: int) -> None:
    """The first event of a visit begins or plans it; it ends once more only after its end was taken back."""
    first, ended, cancelled = {}, set(), set()
    for one in in_order(seed):
        trigger, visit = one.message.trigger, one.visit
        if not visit:
            continue
        assert first.setdefault(visit, trigger) in ADMITS, (visit, trigger)
        assert visit not in cancelled
        if trigger == "A03":
            assert visit not in ended
            ended.add(visit)
        elif trigger == "A13":
            ended.remove(visit)
        elif trigger in {"A11", "A23", "A38", "A27"}:
            cancelled.add(visit)
        else:
            assert visit not in ended or trigger in {"A08", "A41"}
        assert bool(one.field("PV1", 45).strip('"')) == (visit in ended)  # PV1-45


@FEW
@given(SEEDS)
def test_a_visit_belongs_to_one_person(seed: int) -> None:
    """A visit number is told under numbers of one family of messages only."""
    families = defaultdict(set)
    for one in in_order(seed):
        if one.visit:
            families[one.visit].add(one.message.family)
    assert all(len(family) == 1 for family in families.values())


@FEW
@given(SEEDS)
def test_a_merged_number_is_never_admitted_again(seed: int) -> None:
    """After an A40 or A47 the old number comes only in repeats of it, in late messages and by the later use."""
    retired: dict[str, str] = {}
    for one in day(seed, 6, 600):
        message = one.message
        if message.note not in {"late", "duplicate", "old-number"}:
            numbers = {f"{part.split('^')[3]}|{part.split('^')[0]}" for part in one.field("PID", 3).split("~")}
            assert not numbers & set(retired), (message.trigger, message.control_id)
        if message.note == "old-number":
            assert retired[one.patient] == "A40"
            assert message.trigger in {"A08", "A31"}
        if one.named("MRG") and message.trigger in {"A40", "A47"}:
            old = one.field("MRG", 1).split("^")
            retired[f"{old[3]}|{old[0]}"] = message.trigger
            assert f"{old[3]}|{old[0]}" != one.patient


@FEW
@given(SEEDS)
def test_two_patients_never_lie_in_one_bed(seed: int) -> None:
    """Whoever is on a ward has a bed of their own, from admission to discharge."""
    where: dict[str, str] = {}
    for one in in_order(seed):
        trigger, visit = one.message.trigger, one.visit
        if trigger in {"A03", "A11", "A23"}:
            where.pop(visit, None)
        elif trigger == "A17":
            beds = {row[19].split("^")[0]: row[3] for row in one.named("PV1")}
            swapped = {number: where[number] for number in beds}
            assert sorted(swapped.values()) == sorted(beds.values())
            assert all(bed != swapped[number] for number, bed in beds.items())
            where |= beds
        elif visit and one.field("PV1", 2) == "I" and trigger not in {"A08", "A41"}:
            bed = one.field("PV1", 3)
            assert where.get(visit) == bed or bed not in where.values(), (trigger, bed)
            where[visit] = bed


@FEW
@given(SEEDS)
def test_people_are_believable_and_invented(seed: int) -> None:
    """Birth dates are no older than a hundred years and not ahead, telephones are of fiction, ZIP codes of nowhere."""
    for one in day(seed, 12, 300):
        born = one.field("PID", 7)
        if born:
            age = one.message.event_at - datetime.strptime(born, "%Y%m%d").replace(tzinfo=UTC)
            assert -1 <= age.days <= 36_600
        else:
            assert one.field("PID", 5).split("^")[0] in {"UNKNOWN", "DOE"}
        assert one.field("PID", 8) in {"F", "M", "O", "U"}
        telephone = "".join(mark for mark in one.field("PID", 13) if mark.isdigit())
        assert not telephone or "55501" in telephone
        assert one.field("PID", 11) == "" or one.field("PID", 11).split("^")[4].startswith("00")
        assert one.field("PID", 19) == "" or one.field("PID", 19).startswith("666")


def test_a_long_stream_has_everything() -> None:
    """Every event, every sender and version, every character set, births, the unknown, resends and late messages."""
    stream = day(5, 60, 6000)
    triggers = Counter(one.message.trigger for one in stream)
    wanted = "A01 A02 A03 A04 A05 A06 A07 A08 A11 A12 A13 A14 A15 A16 A17 A21 A22 A23 A24 A25 A26 A27 A28 A29 A31"
    wanted += " A37 A38 A40 A41 A43 A47 A60"
    assert set(triggers) >= {*wanted.split(), "A52", "A53", "A54"}
    assert {one.field("MSH", 12) for one in stream} == {"2.3", "2.4", "2.5.1", "2.8"}
    assert {one.field("MSH", 18) for one in stream} == set(CODECS)
    assert {one.message.sender for one in stream} == {"REG", "EMERG", "CLINIC", "MPI"}
    names = {row[0] for one in stream for row in one.rows}
    assert " ".join(sorted(names)) == "AL1 DG1 EVN GT1 IAM IN1 MRG MSH NK1 OBX PD1 PID PR1 PV1 PV2 ZPI"
    assert {one.message.note for one in stream} == {"", "late", "duplicate", "old-number"}
    assert any(one.field("PID", 24) == "Y" for one in stream)  # twins
    assert any(one.field("PID", 5).startswith("BABY") or "^BABY" in one.field("PID", 5) for one in stream)
    assert any(one.message.raw.decode("latin-1").isascii() is False for one in stream if one.message.sender == "EMERG")
    assert any("\\T\\" in one.field("IN1", 4) for one in stream)  # an escaped ampersand
    assert any("~" in one.field("PID", 5) for one in stream)  # a name in two writings


def test_the_unknown_get_a_name() -> None:
    """Who came in without one is identified under the same number within the day."""
    nameless: dict[str, datetime] = {}
    named = 0
    for one in in_order(5, 60, 3000):
        if not one.field("PID", 7) and one.message.trigger == "A04":
            nameless[one.patient] = one.message.event_at
        elif one.patient in nameless and one.field("PID", 7):
            assert (one.message.event_at - nameless.pop(one.patient)).days == 0
            named += 1
    assert named > 3


def test_late_messages_are_late() -> None:
    """A message that was held back is older than the one before it, and says what was so when it was written."""
    stream = day(5, 60, 6000)
    late = [(before, one) for before, one in pairwise(stream) if one.message.note == "late"]
    assert len(late) > 10
    for before, one in late:
        assert one.message.event_at < before.message.event_at
        assert one.field("MSH", 7) == one.field("EVN", 2)


def test_memory_does_not_grow() -> None:
    """However long the stream runs, it deals with as many people as it was told, and their newborns."""
    stream = simulate(3, 4)
    families = {message.family for message in islice(stream, 3000)}
    assert families == set(range(4))
    waiting = stream.gi_frame.f_locals["self"]._waiting  # type: ignore[attr-defined]
    assert len(waiting) < 40


@pytest.mark.parametrize("start", [START, datetime(2031, 12, 30, 6, tzinfo=UTC)])
def test_time_begins_where_it_is_told(start: datetime) -> None:
    """The first events happen on the first day."""
    first = told(next(simulate(1, 50, start)))
    assert 0 <= (first.message.event_at - start).total_seconds() < 6 * 3600


LATER = START + timedelta(days=31)
STREAMS = {"7": (7, 50, START), "70": (70, 50, START), "7P20": (7, 20, START), "7P20D31": (7, 20, LATER)}


def test_the_range_of_a_stream_is_told_by_its_numbers() -> None:
    """The seed, then patients and first day where they are not the default."""
    assert {name: range_of(*arguments) for name, arguments in STREAMS.items()} == {name: name for name in STREAMS}


def test_two_streams_share_no_number() -> None:
    """Patients, visits, accounts, doctors, messages: streams may go to one server, of one seed and of two."""

    def numbers(seed: int, patients: int, start: datetime) -> set[str]:
        found = set()
        for message in islice(simulate(seed, patients, start), 400):
            one = told(message)
            found.add(one.field("MSH", 10))
            for name, place in (("PID", 3), ("PID", 18), ("PV1", 7), ("PV1", 19), ("MRG", 1), ("MRG", 3)):
                for row in one.named(name):
                    parts = [each.split("^") for each in (row[place] if len(row) > place else "").split("~")]
                    found |= {part[0] for part in parts if "SSA" not in part}
        return found - {""}

    streams = [numbers(*arguments) for arguments in STREAMS.values()]
    assert min(map(len, streams)) > 400
    assert all(one.isdisjoint(other) for one, other in combinations(streams, 2))
