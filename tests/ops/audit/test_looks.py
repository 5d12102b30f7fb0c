"""Looks: what is on record for a log-in is not recorded again, and what is forgotten is."""

from engine.ops.audit.trail import MOST_LOGINS, MOST_PATIENTS, Looks


def test_a_patient_is_seen_whichever_entry_names_them() -> None:
    """A patient's other entry is no new look; one that names two, of whom one was not seen, is; each log-in alone."""
    looks = Looks()
    assert looks.unseen("ann 1", {6: (3,), 8: (4,)}) == [6, 8]
    looks.note("ann 1", {6: (3,), 8: (4,)})
    assert looks.unseen("ann 1", {7: (3,), 8: (4,), 9: (3, 5)}) == [9]
    assert looks.unseen("ann 2", {6: (3,)}) == [6]


def test_an_entry_that_names_nobody_is_one_by_itself() -> None:
    """It is on record once, and takes no other entry with it."""
    looks = Looks()
    looks.note("ann 1", {6: ()})
    assert looks.unseen("ann 1", {6: (), 7: ()}) == [7]


def test_what_is_forgotten_is_recorded_again() -> None:
    """Bounded in log-ins and in patients of one; beyond that a look is recorded once more, never left out."""
    looks = Looks()
    for number in range(MOST_LOGINS + 1):
        looks.note(f"ann {number}", {6: (3,)})
    assert looks.unseen("ann 0", {6: (3,)}) == [6]
    assert looks.unseen("ann 1", {6: (3,)}) == []
    looks.note("ann 1", {number: (number,) for number in range(1, MOST_PATIENTS + 2)})
    looks.note("ann 1", {9: (MOST_PATIENTS + 5,)})
    assert looks.unseen("ann 1", {6: (3,), 9: (MOST_PATIENTS + 5,)}) == [6]
