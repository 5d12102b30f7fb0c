"""Whose turn it is: tenants one after the other, and within a tenant its kinds of jobs, as many at a time as may be.

No kind takes the last place, in all or of a tenant: what takes a moment does not wait for all that take minutes. What
was under way when a process ended, perhaps because of it, is done alone: so that nothing else comes to harm by it, and
is blamed for it, again.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from engine.config.service import Jobs
from engine.interchange.store.job import NextJob


class RunningJob(NamedTuple):
    """A job that is being worked on: of which tenant and kind, and whether alone."""

    tenant: str
    kind: str
    alone: bool


class Last(NamedTuple):
    """Whose turn it was: the tenant, and of each tenant the kind; theirs comes after that of the others."""

    tenant: str
    kinds: Mapping[str, str]


def next_job(first: Iterable[NextJob], taken: Collection[RunningJob], limits: Jobs, last: Last) -> NextJob | None:
    """Return which of the first jobs of tenants and kinds is taken up; None where all have to wait."""
    if len(taken) >= limits.at_once or any(one.alone for one in taken):
        return None

    def turn(one: NextJob) -> tuple[bool, str, bool, str]:
        return (one.tenant <= last.tenant, one.tenant, one.kind <= last.kinds.get(one.tenant, ""), one.kind)

    chosen = min((one for one in first if _has_place(one, taken, limits)), key=turn, default=None)
    return None if chosen is not None and chosen.crashes and taken else chosen


def _has_place(one: NextJob, taken: Collection[RunningJob], limits: Jobs) -> bool:
    mine = [each for each in taken if each.tenant == one.tenant]
    return (
        len(mine) < limits.at_once_per_tenant
        and sum(each.kind == one.kind for each in mine) < max(1, limits.at_once_per_tenant - 1)
        and sum(each.kind == one.kind for each in taken) < max(1, limits.at_once - 1)
    )
