"""The feed and the fold: seeded, believable, and agreeing with themselves."""

from tests.flow.feed import make_feed
from tests.flow.fold import fold, head


def test_the_same_seed_gives_the_same_bytes() -> None:
    """A run can be repeated from its seed."""
    assert make_feed(5, 300, 15) == make_feed(5, 300, 15)
    assert make_feed(5, 300, 15) != make_feed(6, 300, 15)


def test_messages_are_of_believable_size_and_each_has_its_stamp() -> None:
    """Half a kilobyte to two; only a resend repeats a control ID or a telephone number."""
    feed = make_feed(5, 600, 30)
    assert all(500 <= len(message.raw) <= 2048 for message in feed)
    first = [message for message in feed if not message.resend]
    assert len({message.control_id for message in first}) == len({message.stamp for message in first}) == len(first)
    assert {raw.raw for raw in feed if raw.resend} < {raw.raw for raw in first}


def test_the_fold_merges_as_often_as_the_feed_says() -> None:
    """Each merge makes one record of two, chains lead to one head, and nobody is merged into a stranger."""
    feed = make_feed(5, 600, 30)
    records = fold(message.raw for message in feed if message.expected == "AA")
    merged = [record for record in records.values() if record.merged_into]
    assert len(merged) == 30
    for record in merged:
        survivor = head(records, record.number)
        assert survivor is not None
        assert survivor.facts["birthDate"] == record.facts["birthDate"]
    phones = {record.facts["phone"] for record in records.values()}
    assert len(phones) == len(records)
