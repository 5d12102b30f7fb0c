"""How long a channel keeps what ended."""

from engine.config.channel import KeptDays, Retention


def test_what_a_person_may_ask_about_is_kept_longer() -> None:
    """Refused and discarded bodies stay 90 days, delivered and filtered ones 30, entries a year."""
    kept = Retention()
    assert [one.bodies_days for one in (kept.delivered, kept.filtered, kept.rejected, kept.discarded)] == [
        30,
        30,
        90,
        90,
    ]
    assert {one.entries_days for one in (kept.delivered, kept.filtered, kept.rejected, kept.discarded)} == {365}


def test_an_entry_stays_at_least_as_long_as_its_body() -> None:
    """The other way round the body would hang on nothing."""
    ((path, found, expected),) = KeptDays(bodies_days=31, entries_days=30).conflicts()
    assert (path, found) == (("entries_days",), "30, which is less than bodies_days")
    assert "at least 31" in expected
