"""A destination with `writes: create-only`, end to end: it gets whom it has not got, and nothing of it is changed."""

from collections import Counter
from pathlib import Path

import pytest

from tests.destinations.azure_like import AzureLike
from tests.destinations.double_rig import DoubleRig
from tests.flow.feed import make_feed


@pytest.mark.parametrize("create", ["conditional", "client-id"])
async def test_a_feed_with_merges_changes_nothing(tmp_path: Path, seed: int, create: str) -> None:
    """What is taken is delivered, merges beyond any limit too; each number has one record, as it was first written."""
    rig = DoubleRig(tmp_path, AzureLike())
    try:
        await rig.open(create=create, writes="create-only", merge_limit={"merges": 1, "minutes": 10})
        await rig.engine.start()
        await rig.sender(make_feed(seed, 60, 8), 4).run()
        await rig.drained()
    finally:
        await rig.close()
    rows = [row for row in rig.rows() if row.state != "rejected"]  # the feed has merges of a number into itself
    assert {row.state for row in rows} == {"delivered"}
    assert {"created", "not-written"} <= {row.reason for row in rows} <= {"created", "not-written", "unchanged"}
    assert any("not-written merge" in row.notes for row in rows)
    assert {effect.partition(" ")[0] for effect in rig.double.effects} == {"create"}
    numbers = Counter(item["value"] for patient in rig.double.patients.values() for item in patient["identifier"])
    assert set(numbers.values()) == {1}
    assert {kept["meta"]["versionId"] for kept in (*rig.double.patients.values(), *rig.double.chart.values())} == {"1"}
