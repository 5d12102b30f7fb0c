"""The table of moves, held against a copy written by hand, and what a cancel takes back."""

from datetime import UTC, datetime
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.simulation.hospital import Bed, Doctor, Hospital
from engine.simulation.stay import MOVES, UNDOES, Stay, StayPhase

AT = datetime(2026, 3, 2, 9, tzinfo=UTC)
WARD, OTHER = Bed("3W", "401", "A", "RIVERBEND"), Bed("4E", "502", "B", "RIVERBEND")
DOCTOR = Doctor("1100", "Kessden", "Maren")

# State: event and what becomes of the stay, as the standard has it (chapter 3).
BY_HAND = {
    "NONE": "A05 PLANNED, A14 PLANNED, A01 INPATIENT",
    "PLANNED": "A01 INPATIENT, A38 CANCELLED, A27 CANCELLED, A08 PLANNED",
    "OUTPATIENT": "A06 INPATIENT, A11 CANCELLED, A23 CANCELLED, A03 ENDED, A08 OUTPATIENT, A60 OUTPATIENT",
    "EMERGENCY": "A06 INPATIENT, A11 CANCELLED, A23 CANCELLED, A03 ENDED, A08 EMERGENCY, A60 EMERGENCY",
    "INPATIENT": "A07 OUTPATIENT, A21 LEAVE, A53 LEAVE, A11 CANCELLED, A03 ENDED, A02 INPATIENT, A12 INPATIENT, "
    "A15 INPATIENT, A26 INPATIENT, A16 INPATIENT, A25 INPATIENT, A54 INPATIENT, A08 INPATIENT, A60 INPATIENT, "
    "A23 CANCELLED",
    "LEAVE": "A22 INPATIENT, A52 INPATIENT, A08 LEAVE",
    "ENDED": "A13 INPATIENT, A08 ENDED",
}


def stay(*triggers: str) -> Stay:
    """Return a stay to which these events happened."""
    made = Stay("V1", "AC1", "MED", DOCTOR, DOCTOR, WARD)
    for trigger in triggers:
        made.move(trigger, AT)
    return made


def test_the_table_is_the_one_written_by_hand() -> None:
    """No event moves a stay but as the copy says."""
    copy = {
        (StayPhase[state], move.split()[0]): StayPhase[move.split()[1]]
        for state, moves in BY_HAND.items()
        for move in moves.split(", ")
    }
    assert copy == MOVES


@pytest.mark.parametrize("trigger", sorted({trigger for _, trigger in MOVES}))
def test_what_is_not_in_the_table_does_not_happen(trigger: str) -> None:
    """An event out of its turn is refused, and leaves the stay as it was."""
    made = stay("A01", "A11")
    with pytest.raises(ValueError, match=trigger):
        made.move(trigger, AT)
    assert made.state is StayPhase.CANCELLED


@pytest.mark.parametrize(
    ("history", "cancel"),
    [
        pytest.param(("A01", "A02"), "A11", id="an admission after a transfer"),
        pytest.param(("A01",), "A12", id="a transfer that was none"),
        pytest.param(("A01", "A21", "A22", "A02"), "A53", id="a return before a transfer"),
        pytest.param(("A05",), "A27", id="a pre-admission as a pending admission"),
    ],
)
def test_a_cancel_takes_back_only_the_last_movement(history: tuple[str, ...], cancel: str) -> None:
    """What happened since makes the older movement final."""
    assert not stay(*history).may(cancel)


@pytest.mark.parametrize("cancel", sorted(UNDOES))
def test_updates_do_not_stand_between_a_movement_and_its_cancel(cancel: str) -> None:
    """An A08 is no movement."""
    before = {
        "A02": ("A01",),
        "A03": ("A01",),
        "A15": ("A01",),
        "A16": ("A01",),
        "A21": ("A01",),
        "A22": ("A01", "A21"),
    }
    undone = min(UNDOES[cancel] - {"A04"})
    made = stay(*before.get(undone, ()), undone, "A08")
    assert made.may(cancel)


def test_a_cancelled_transfer_leads_back() -> None:
    """PV1-3 of an A12 is where the patient was before."""
    made = stay("A01")
    made.move("A02", AT, OTHER)
    assert (made.bed, made.prior) == (OTHER, WARD)
    made.move("A12", AT)
    assert (made.bed, made.prior) == (WARD, None)


def test_a_cancelled_discharge_has_no_end() -> None:
    """An A13 takes back the time and the disposition; the patient class stays what it was."""
    made = stay("A01", "A03")
    assert made.ended_at == AT
    assert made.patient_class == "I"  # PV1-2
    made.move("A13", AT)
    assert (made.ended_at, made.disposition, made.state) == (None, "", StayPhase.INPATIENT)


@given(st.integers(0, 9999), st.lists(st.booleans(), max_size=400))
def test_no_bed_is_given_out_twice(seed: int, steps: list[bool]) -> None:
    """Beds are taken and given back in any order; there is always one more."""
    draw, taken = Random(seed), []
    hospital = Hospital(draw)
    for take in steps:
        if take or not taken:
            bed = hospital.bed(draw)
            assert bed not in taken
            taken.append(bed)
        else:
            hospital.leave(taken.pop(draw.randrange(len(taken))))
    assert len(set(taken)) == len(taken)
    assert not any(hospital.take(bed) for bed in taken)
