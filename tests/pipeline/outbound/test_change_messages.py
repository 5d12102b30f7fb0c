"""What a relay is sent of events that come late, twice, in any order, and from a server that was restored."""

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.fhir.json import JsonObject
from engine.journal.entry import State
from engine.journal.write.entry_lookup import OperationRequest
from engine.mapping.outgoing.detection import ResourceState, resource_state
from tests.memory_folder import folder_in_memory
from tests.pipeline.outbound.change_rig import EHR, RECORD, ChangeRig, SentChange, change_rig, changes_of
from tests.pipeline.outbound.event_registry import BASE, NOON, Registry
from tests.tiers import trials

ONE, STAY, OTHER_STAY = "Patient/1", "Encounter/a", "Encounter/b"
DELETED: Final = {"patient-deleted", "visit-deleted"}
CREATED: Final = {"patient-created", "visit-planned", "visit-started", "visit-ended", "visit-cancelled"}
STATUSES: Final = ("planned", "in-progress", "finished", "cancelled")


def visit(status: str = "in-progress", ward: int = 1) -> dict[str, Any]:
    """Return elements of a visit of the first patient."""
    place = {"location": {"reference": f"Location/{ward}"}, "status": "active"}
    return {"status": status, "subject": {"reference": ONE}, "location": [place]}


def phone(number: int | str) -> dict[str, Any]:
    """Return elements of a patient."""
    return {"telecom": [{"system": "phone", "value": str(number)}]}


def history(registry: Registry, rand: random.Random, length: int, *, dated: bool) -> list[bytes]:
    """Write a random history of one patient and two visits; return its events."""
    events = [registry.write(ONE, **phone(0))]
    alive = {ONE}
    while len(events) < length:
        reference = rand.choice((ONE, STAY, STAY, OTHER_STAY))
        number = len(events)
        if reference in alive and rand.random() < 0.1:
            alive.discard(reference)
            events.append(registry.delete(reference, dated=dated))
        else:
            alive.add(reference)
            content = phone(rand.randrange(4)) if reference == ONE else visit(rand.choice(STATUSES), number % 3)
            events.append(registry.write(reference, **content))
    return events


def _said(resource: JsonObject) -> ResourceState:
    return resource_state(resource, BASE)


def faults(registry: Registry, messages: list[SentChange], *, versions: bool) -> list[str]:
    """Return what is wrong with what was sent of each resource."""
    found = []
    for reference, made in registry.versions.items():
        kinds = [one.kind for one in messages if one.reference == reference]
        shown = [one.version for one in messages if one.reference == reference]
        last = made[-1].resource
        if not kinds:
            found.append(f"{reference}: nothing was sent")
        elif last is None:
            found += [f"{reference}: {kinds[-1]} is the last of a deleted one"] if kinds[-1] not in DELETED else []
        else:
            said_last = next(one.resource for one in made if one.number == shown[-1])
            if kinds[-1] in DELETED or said_last is None or _said(said_last) != _said(last):
                found.append(f"{reference}: {kinds[-1]} of {shown[-1]} is the last, not {made[-1].number}")
        if versions:
            twice = [one for one, count in Counter(zip(kinds, shown, strict=True)).items() if count > 1]
            found += [f"{reference}: {one} was sent twice" for one in twice if one[0] not in DELETED]
        for before, kind in zip(("", *kinds), kinds, strict=False):
            fresh = not before or before in DELETED
            if fresh and kind not in CREATED | DELETED:
                found.append(f"{reference}: {kind} of what nobody was sent of")
            if (kind == "patient-created" and not fresh) or (kind in DELETED and before in DELETED):
                found.append(f"{reference}: {kind} after {before}")
    return found


async def shuffled(registry: Registry, seed: int, *, by_feed: bool, dated: bool) -> list[str]:
    """Tell a random history in random order, with repeats, restarts and lost answers; return what is wrong."""
    rand = random.Random(seed)
    with folder_in_memory() as folder:
        async with change_rig(Path(folder), registry, by_feed=by_feed) as rig:
            # The channel took events before any of them.
            await rig.take(registry.write("Patient/99", **phone(1)))
            events = history(registry, rand, rand.randrange(3, 16), dated=dated)
            coming = events + rand.choices(events, k=len(events) // 3)
            rand.shuffle(coming)
            while coming:
                size = rand.randrange(1, 5)
                await rig.arrive(*coming[:size])
                coming = coming[size:]
                rig.lost = rand.randrange(2)
                if rand.random() < 0.7:
                    await rig.run()
                if rand.random() < 0.2:
                    rig.restart()
            await rig.run()
            once = list(dict.fromkeys(rig.sent))
            assert all(state is not State.HELD for state, _ in rig.ended), rig.ended
            ids = Counter(orjson.loads(raw)["id"] for raw in once)
            again = [f"{one} was made anew" for one, count in ids.items() if count > 1]
            return again + faults(registry, changes_of(once), versions=dated)


@given(seed=st.integers(0, 2**32), numbered=st.booleans(), by_feed=st.booleans(), dated=st.booleans())
@settings(max_examples=trials(150), deadline=None)
def test_in_any_order_the_last_message_says_the_last_state(
    seed: int, *, numbered: bool, by_feed: bool, dated: bool
) -> None:
    """Created comes first, nothing after a deletion but a creation, no version twice, and at the end what is so."""
    assert asyncio.run(shuffled(Registry(numbered=numbered), seed, by_feed=by_feed, dated=dated)) == []


async def test_a_version_without_a_number_is_ordered_by_its_moment(tmp_path: Path) -> None:
    """What was written before what the relay has is not sent after it."""
    async with change_rig(tmp_path, Registry(numbered=False)) as rig:
        first, second, third = (rig.registry.write(ONE, **phone(number)) for number in range(3))
        assert await rig.take(first, third, second) == ["patient-created", "patient-updated", "older-version"]
        assert await rig.take(rig.registry.write(ONE, **phone(3))) == ["patient-updated"]


async def test_the_first_event_of_a_new_record_creates_it_although_it_is_not_its_first_version(tmp_path: Path) -> None:
    """Also where versions have no numbers."""
    async with change_rig(tmp_path, Registry(numbered=False)) as rig:
        await rig.take(rig.registry.write("Patient/99"))
        first, second = (rig.registry.write(ONE, **phone(number)) for number in range(2))
        assert await rig.take(second, first) == ["patient-created", "older-version"]


async def test_a_deletion_that_says_no_version_comes_late(tmp_path: Path) -> None:
    """Nothing is sent deleted that is there again."""
    async with change_rig(tmp_path) as rig:
        assert await rig.take(rig.registry.write(ONE, **phone(1))) == ["patient-created"]
        gone = rig.registry.delete(ONE, dated=False)
        assert await rig.take(rig.registry.write(ONE, **phone(2))) == ["patient-updated"]
        assert await rig.take(gone) == ["older-version"]


async def test_a_version_comes_after_the_deletion_that_says_none(tmp_path: Path) -> None:
    """Nothing is sent of what is gone, and what is there again is sent as new."""
    async with change_rig(tmp_path) as rig:
        first, second = rig.registry.write(ONE, **phone(1)), rig.registry.write(ONE, **phone(2))
        gone = rig.registry.delete(ONE, dated=False)
        assert await rig.take(first, gone, second) == ["patient-created", "patient-deleted", "older-version"]
        assert await rig.take(rig.registry.write(ONE, **phone(3))) == ["patient-created"]


async def test_who_is_deleted_twice_is_told_twice(tmp_path: Path) -> None:
    """The second deletion says the same bytes as the first one, and is no repeat of it."""
    async with change_rig(tmp_path) as rig:
        await rig.take(rig.registry.write(ONE, **phone(1)))
        assert await rig.take(rig.registry.delete(ONE, dated=False)) == ["patient-deleted"]
        rig.now += timedelta(seconds=1)
        again = rig.registry.write(ONE, **phone(2))
        gone = rig.registry.delete(ONE, dated=False)
        assert await rig.take(gone, again) == ["deleted-already", "older-version"]
        again = rig.registry.write(ONE, **phone(3))
        assert await rig.take(again) == ["patient-created"]
        rig.now += timedelta(seconds=1)
        assert await rig.take(rig.registry.delete(ONE, dated=False)) == ["patient-deleted"]


async def test_a_visit_whose_patient_is_gone_is_told_with_what_he_was(tmp_path: Path) -> None:
    """Its deletion does not hold the feed because the patient was deleted right after it."""
    async with change_rig(tmp_path, by_feed=True) as rig:
        await rig.take(rig.registry.write(ONE, **phone(1)), rig.registry.write(STAY, **visit()))
        gone = [rig.registry.delete(STAY), rig.registry.delete(ONE)]
        assert await rig.take(*gone) == ["visit-deleted", "patient-deleted"]
        assert changes_of(rig.sent)[2].patient["telecom"] == phone(1)["telecom"]


async def test_what_was_not_answered_is_sent_again_byte_for_byte(tmp_path: Path) -> None:
    """Although its patient has changed meanwhile at the server, and somebody says that it is to be tried at once."""
    async with change_rig(tmp_path) as rig:
        await rig.take(rig.registry.write(ONE, **phone(1)))
        await rig.arrive(rig.registry.write(STAY, **visit()))
        for _ in range(2):
            await once(rig, lost=True)
            rig.registry.write(ONE, **phone(2))
            rig.restart()
            await rig.journal.act(lambda context: context.operations.retry(2, asked(rig)))
        await once(rig, lost=False)
        assert len(set(rig.sent[1:])) == 1
        assert len(rig.sent) == 4


async def once(rig: ChangeRig, *, lost: bool) -> None:
    """Deliver one message, whose answer may be lost, and nothing else."""
    (claimed,) = await rig.journal.claim(EHR, 1, rig.now)
    rig.lost = int(lost)
    await rig.deliver(claimed)


def asked(rig: ChangeRig) -> OperationRequest:
    """Return an operator's request."""
    return OperationRequest(by="nora", at=rig.now)


async def test_what_is_replayed_and_not_answered_is_the_same_again(tmp_path: Path) -> None:
    """A replay is made anew, once; its further tries are the same message."""
    async with change_rig(tmp_path) as rig:
        await rig.take(rig.registry.write(ONE, **phone(1)), rig.registry.write(STAY, **visit()))
        rig.registry.write(ONE, **phone(2))
        rig.now += timedelta(seconds=1)
        await rig.journal.act(lambda context: context.operations.replay(2, (EHR,), asked(rig)))
        await once(rig, lost=True)
        rig.registry.write(ONE, **phone(3))
        await once(rig, lost=False)
        first, replayed, again = rig.sent[1:]
        assert replayed == again != first
        assert changes_of([replayed])[0].patient["telecom"] == phone(2)["telecom"]


async def test_a_server_that_went_back_is_heard(tmp_path: Path) -> None:
    """Versions that were given before are given once more: what is written since is sent, and what came late is not."""
    async with change_rig(tmp_path) as rig:
        registry = rig.registry
        await rig.take(registry.write(ONE, **phone(1)), registry.write(STAY, **visit()))
        kept = registry.backup()
        late = registry.write(ONE, **phone(2))
        await rig.take(
            *(registry.write(ONE, **phone(number)) for number in (3, 4)), registry.write(STAY, **visit("finished"))
        )
        assert await rig.take(late) == ["older-version"]
        registry.restore(kept)
        assert await rig.take(registry.write(ONE, **phone(5))) == ["patient-updated"]
        assert await rig.take(registry.write(ONE, **phone(6))) == ["patient-updated"]
        assert await rig.take(registry.write(STAY, **visit("finished", 2))) == ["visit-updated"]
        assert rig.notes == {"server-went-back"}
        assert await rig.take(late) == ["older-version"]


async def test_the_newest_version_has_other_content_under_its_number(tmp_path: Path) -> None:
    """A version is what it says, not its number alone."""
    async with change_rig(tmp_path) as rig:
        await rig.take(rig.registry.write(ONE, **phone(1)))
        kept = rig.registry.backup()
        await rig.take(rig.registry.write(ONE, **phone(2)))
        rig.registry.restore(kept)
        assert await rig.take(rig.registry.write(ONE, **phone(3))) == ["patient-updated"]


async def test_another_patient_has_the_id_since_the_server_went_back(tmp_path: Path) -> None:
    """He is created: the relay knows nobody of his numbers."""
    async with change_rig(tmp_path) as rig:
        await rig.take(*(rig.registry.write(ONE, **phone(number)) for number in range(3)))
        rig.registry.restore({})
        assert await rig.take(rig.registry.write(ONE, **phone(7))) == ["patient-created"]
        assert await rig.take(rig.registry.write(ONE, **phone(8))) == ["patient-updated"]


async def test_many_versions_are_written_before_the_first_is_read(tmp_path: Path) -> None:
    """Also those are sent whose numbers the server has passed again when they are read."""
    async with change_rig(tmp_path) as rig:
        await rig.take(*(rig.registry.write(ONE, **phone(number)) for number in range(4)))
        rig.registry.restore({})
        events = [rig.registry.write(ONE, **phone(10 + number)) for number in range(6)]
        assert await rig.take(*events) == ["patient-created", *["patient-updated"] * 5]


async def test_a_server_without_former_versions_went_back(tmp_path: Path) -> None:
    """It shows nothing but what is there now, and its moments."""
    async with change_rig(tmp_path) as rig:
        await rig.take(*(rig.registry.write(ONE, **phone(number)) for number in range(4)))
        rig.registry.keeps = False
        rig.registry.restore({})
        assert await rig.take(rig.registry.write(ONE, **phone(7))) == ["patient-updated"]


async def test_a_server_that_says_no_moments_went_back(tmp_path: Path) -> None:
    """Its newest version is older than what was sent: that is only so of one that went back."""
    registry = Registry()
    registry.dated = False
    async with change_rig(tmp_path, registry) as rig:
        events = [registry.write(ONE, **phone(number)) for number in range(4)]
        assert await rig.take(events[0], events[3], events[1]) == [
            "patient-created",
            "patient-updated",
            "older-version",
        ]
        registry.restore({ONE: registry.versions[ONE][:1]})
        assert await rig.take(registry.write(ONE, **phone(7))) == ["patient-updated"]


async def test_the_clock_of_a_server_was_set_back_between_two_versions(tmp_path: Path) -> None:
    """That is no server that went back: the older version is not sent after the newer one."""
    async with change_rig(tmp_path) as rig:
        first, second = rig.registry.write(ONE, **phone(1)), rig.registry.write(ONE, **phone(2))
        rig.registry.now = NOON - timedelta(hours=1)
        third = rig.registry.write(ONE, **phone(3))
        assert await rig.take(first, third, second) == ["patient-created", "patient-updated", "older-version"]


async def test_the_clock_of_a_server_without_numbers_was_set_back(tmp_path: Path) -> None:
    """Its newest version is sent, although its moment is before that of what was sent."""
    async with change_rig(tmp_path, Registry(numbered=False)) as rig:
        await rig.take(rig.registry.write(ONE, **phone(1)))
        rig.registry.now = NOON - timedelta(hours=1)
        assert await rig.take(rig.registry.write(ONE, **phone(2))) == ["patient-updated"]


async def test_what_the_engine_wrote_is_not_told(tmp_path: Path) -> None:
    """Its version is its own; the next one is somebody else's."""
    async with change_rig(tmp_path) as rig:
        own = rig.registry.write(ONE, **phone(1))
        await rig.wrote((ONE, "1", rig.registry.now))
        assert await rig.take(own) == ["own-change"]
        assert await rig.take(rig.registry.write(ONE, **phone(2))) == ["patient-updated"]


async def test_a_version_that_was_the_engines_before_the_server_went_back(tmp_path: Path) -> None:
    """Under its number is somebody else's change now, which is sent; the engine's own new one is not."""
    async with change_rig(tmp_path) as rig:
        await rig.take(rig.registry.write(ONE, **phone(1)))
        kept = rig.registry.backup()
        own = [rig.registry.write(ONE, **phone(number)) for number in (2, 3)]
        await rig.wrote((ONE, "2", rig.registry.now), (ONE, "3", rig.registry.now))
        assert await rig.take(*own) == ["own-change", "own-change"]
        rig.registry.restore(kept)
        assert await rig.take(rig.registry.write(ONE, **phone(4))) == ["patient-updated"]
        anew = rig.registry.write(ONE, **phone(5))
        await rig.wrote((ONE, "3", rig.registry.now))
        assert await rig.take(anew) == ["own-change"]


async def test_what_the_engine_deleted_is_not_told_although_the_answer_names_no_version(tmp_path: Path) -> None:
    """Somebody else's later deletion is."""
    async with change_rig(tmp_path) as rig:
        await rig.take(rig.registry.write(ONE, **phone(1)))
        gone = rig.registry.delete(ONE)
        await rig.wrote((ONE, "", rig.registry.now))
        assert await rig.take(gone) == ["own-change"]
        assert await rig.take(rig.registry.write(ONE, **phone(2))) == ["patient-created"]
        rig.registry.now += timedelta(hours=1)
        assert await rig.take(rig.registry.delete(ONE)) == ["patient-deleted"]


async def test_an_event_waits_for_the_write_that_it_may_be_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may come before the answer to the write does."""
    async with change_rig(tmp_path) as rig:
        own, writes = rig.registry.write(ONE, **phone(1)), rig.changes.writes
        waits, wait = asyncio.Event(), writes.wait

        async def waited(destinations: Sequence[str]) -> None:
            waits.set()
            await wait(destinations)

        monkeypatch.setattr(writes, "wait", waited)
        writes.begin(RECORD, 77)
        taking = asyncio.create_task(rig.take(own))
        await asyncio.wait({taking, asyncio.create_task(waits.wait())}, return_when=asyncio.FIRST_COMPLETED)
        assert waits.is_set()
        await rig.wrote((ONE, "1", rig.registry.now))
        writes.end(RECORD, 77)
        assert await taking == ["own-change"]


@pytest.mark.parametrize(
    ("left_out", "end"),
    [([], "patient-created"), (["other"], "patient-created"), (["riverbend-adt"], "own-change"), (None, "own-change")],
)
async def test_changes_of_channels_that_are_not_left_out_are_told(
    tmp_path: Path, left_out: list[str] | None, end: str
) -> None:
    """`except_from: []` leaves out none, a list those in it."""
    async with change_rig(tmp_path, except_from=left_out) as rig:
        own = rig.registry.write(ONE, **phone(1))
        await rig.wrote((ONE, "1", rig.registry.now))
        assert await rig.take(own) == [end]


async def test_an_events_server_that_does_not_answer_is_asked_again(tmp_path: Path) -> None:
    """Nothing is sent by half, and nothing is lost."""
    async with change_rig(tmp_path) as rig:
        await rig.take(rig.registry.write(ONE, **phone(1)))
        rig.registry.down = True
        await rig.arrive(rig.registry.write(STAY, **visit()))
        await rig.run()
        assert [one.kind for one in changes_of(rig.sent)] == ["patient-created", "visit-started"]


def test_a_state_that_an_older_program_kept_is_read() -> None:
    """It says no moment."""
    state = ResourceState.read('{"content":"abc"}')
    assert (state.content, state.at) == ("abc", "")
