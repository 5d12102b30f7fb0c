"""Whose turn it is among tenants and kinds: nobody waits for more than one turn of each other one."""

from collections import Counter
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.config.service import Jobs
from engine.interchange.jobs.runner import Last, RunningJob, next_job
from engine.interchange.store.job import NextJob

TENANTS, KINDS = ("a", "b", "c"), ("export", "retrieve")
queues = st.dictionaries(st.sampled_from([*product(TENANTS, KINDS)]), st.integers(1, 30))


@given(queues)
def test_turns_are_even(waiting: dict[tuple[str, str], int]) -> None:
    """As long as both have jobs that wait, no tenant, and no kind of a tenant, is two turns ahead of another one."""
    last, left, turns = Last("", {}), Counter(waiting), Counter[str]()
    kinds: Counter[tuple[str, str]] = Counter()
    while left.total():
        first = [NextJob(*one, 1, 0) for one, number in left.items() if number]
        chosen = next_job(first, (), Jobs(), last)
        assert chosen is not None
        last = Last(chosen.tenant, {**last.kinds, chosen.tenant: chosen.kind})
        turns[chosen.tenant] += 1
        kinds[chosen.tenant, chosen.kind] += 1
        left[chosen.tenant, chosen.kind] -= 1
        there = {one.tenant for one in first}
        assert all(turns[chosen.tenant] <= turns[other] + 1 for other in there)
        assert all(
            kinds[chosen.tenant, chosen.kind] <= kinds[one.tenant, one.kind] + 1
            for one in first
            if one.tenant == chosen.tenant
        )


LIMITS = Jobs(at_once=4, at_once_per_tenant=3)
BUSY = [RunningJob("a", "retrieve", alone=False)] * 2


@pytest.mark.parametrize(
    ("first", "taken", "chosen"),
    [
        pytest.param([("a", "retrieve", 0)], BUSY, None, id="a kind has not the last place of a tenant"),
        pytest.param([("a", "retrieve", 0), ("a", "export", 0)], BUSY, ("a", "export"), id="another kind has it"),
        pytest.param(
            [("a", "export", 0)], [*BUSY, RunningJob("a", "export", alone=False)], None, id="a tenant has so many"
        ),
        pytest.param(
            [("b", "retrieve", 0)], [*BUSY, RunningJob("b", "retrieve", alone=False)], None, id="nor the last of all"
        ),
        pytest.param(
            [("b", "export", 0)], [*BUSY, RunningJob("b", "retrieve", alone=False)], ("b", "export"), id="of all"
        ),
        pytest.param([("b", "export", 1)], BUSY, None, id="what saw a crash waits until it is alone"),
        pytest.param([("b", "export", 1)], [], ("b", "export"), id="what saw a crash is alone"),
        pytest.param(
            [("b", "export", 0)], [RunningJob("a", "export", alone=True)], None, id="and has nobody beside it"
        ),
    ],
)
def test_who_has_a_place(
    first: list[tuple[str, str, int]], taken: list[RunningJob], chosen: tuple[str, str] | None
) -> None:
    """Places are limited in all, of a tenant, and of a kind."""
    found = next_job(
        [NextJob(tenant, kind, 1, crashes) for tenant, kind, crashes in first], taken, LIMITS, Last("", {})
    )
    assert (found and (found.tenant, found.kind)) == chosen


def test_one_place_is_for_any_kind() -> None:
    """Where there is but one place, whoever's turn it is has it."""
    assert next_job([NextJob("a", "export", 1, 0)], [], Jobs(at_once=1, at_once_per_tenant=1), Last("", {})) is not None
