"""The order of jobs: tenants take turns, and within a tenant its kinds of jobs, within the configured limits.

No kind takes the last place, neither of the service nor of a tenant: short jobs do not wait for all the long ones. A
job that was under way when a process crashed is done alone, as it may be the cause: a second crash then harms no other
job.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from engine.config.service import Jobs
from engine.interchange.store.job import NextJob


class RunningJob(NamedTuple):
    """A running job: its tenant and kind, and whether it must be alone."""

    tenant: str
    kind: str
    alone: bool


class Last(NamedTuple):
    """The last turn: the tenant, and the kind of each tenant; all others come first."""

    tenant: str
    kinds: Mapping[str, str]


def next_job(first: Iterable[NextJob], taken: Collection[RunningJob], limits: Jobs, last: Last) -> NextJob | None:
    """Return the next job of the first ones of tenants and kinds; None if all have to wait."""
    if len(taken) >= limits.at_once or any(one.alone for one in taken):
        return None

    def turn(job: NextJob) -> tuple[bool, str, bool, str]:
        return (job.tenant <= last.tenant, job.tenant, job.kind <= last.kinds.get(job.tenant, ""), job.kind)

    chosen = min((job for job in first if _has_place(job, taken, limits)), key=turn, default=None)
    return None if chosen is not None and chosen.crashes and taken else chosen


def _has_place(job: NextJob, taken: Collection[RunningJob], limits: Jobs) -> bool:
    of_tenant = [running for running in taken if running.tenant == job.tenant]
    return (
        len(of_tenant) < limits.at_once_per_tenant
        and sum(running.kind == job.kind for running in of_tenant) < max(1, limits.at_once_per_tenant - 1)
        and sum(running.kind == job.kind for running in taken) < max(1, limits.at_once - 1)
    )
