"""A pair as it is shown: how far it is, and what its two records say of each other."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from engine.deliver.stored import ServerResource
from engine.journal.access.audited import Decision
from engine.journal.read.duplicates import PairEnd, PairEnding, PairPlace
from engine.ops.views.duplicate import NEW, records_at, status_of

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
MERGED = PairEnd(PairEnding.MERGED, 5)


@pytest.mark.parametrize(
    ("settled", "choice", "age", "status"),
    [
        pytest.param(None, "", timedelta(0), "open", id="new"),
        pytest.param(None, "", NEW, "open", id="thirty days"),
        pytest.param(None, "", NEW + timedelta(seconds=1), "older", id="older"),
        pytest.param(None, "sent", NEW * 2, "sent", id="sent, however old"),
        pytest.param(None, "same", timedelta(0), "closed", id="same"),
        pytest.param(None, "different", timedelta(0), "closed", id="different"),
        pytest.param(None, "done", timedelta(0), "closed", id="done"),
        pytest.param(MERGED, "", timedelta(0), "closed", id="merged"),
        pytest.param(MERGED, "sent", timedelta(0), "closed", id="merged after it was sent"),
    ],
)
def test_how_far_a_pair_is(settled: PairEnd | None, choice: str, age: timedelta, status: str) -> None:
    """What settled it counts first, then what was decided, then how long ago it was noted."""
    decision = Decision(choice, "ann", NOW) if choice else None
    assert status_of(settled, decision, NOW - age, NOW) == status


def patient(logical_id: str, *links: tuple[str, str]) -> ServerResource:
    """Return a Patient with links."""
    body: dict[str, Any] = {"resourceType": "Patient", "id": logical_id, "birthDate": f"198{logical_id}-01-01"}
    body["link"] = [{"other": {"reference": f"Patient/{other}"}, "type": kind} for kind, other in links]
    return ServerResource(logical_id, "1", body, fresh=True)


@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        pytest.param((), (), "", id="two records"),
        pytest.param((("replaced-by", "2"),), (("replaces", "1"),), "merged", id="one into the other"),
        pytest.param((), (("replaced-by", "1"),), "merged", id="the other into the one"),
        pytest.param((("replaced-by", "3"),), (("replaced-by", "3"),), "merged", id="both into a third"),
        pytest.param((("replaced-by", "3"),), (("replaced-by", "4"),), "", id="into two others"),
        pytest.param((("seealso", "2"),), (("seealso", "1"),), "linked", id="linked both ways"),
        pytest.param((("seealso", "2"),), (), "", id="linked one way"),
        pytest.param((("seealso", "3"),), (("seealso", "3"),), "", id="linked with somebody else"),
    ],
)
def test_what_two_records_say_of_each_other(
    one: tuple[tuple[str, str], ...], other: tuple[tuple[str, str], ...], said: str
) -> None:
    """A merge by another program, and a link, are seen at the records themselves."""
    found = {"1": patient("1", *one), "2": patient("2", *other)}
    shown = records_at(PairPlace("d", "1", "2"), found)
    assert shown.settled == said
    assert next(line for line in shown.lines if line.what == "Born").differs == (True,)


def test_a_record_that_is_gone_is_named() -> None:
    """The other one is shown alone; nothing is concluded from it."""
    shown = records_at(PairPlace("d", "1", "2"), {"2": patient("2")})
    assert (shown.gone, shown.mine and shown.mine.patient, shown.others, shown.settled) == (("1",), "2", (), "")
