"""Whose turn it is: tenants one after the other, as many jobs at a time as are allowed in all and to each.

What was under way when a process ended, perhaps because of it, is done alone: so that nothing else comes to harm by
it, and is blamed for it, again.
"""

from collections.abc import Collection, Iterable
from typing import NamedTuple

from engine.config.service import Jobs
from engine.interchange.store.job import First


class Taken(NamedTuple):
    """A job that is being worked on: of which tenant, and whether alone."""

    tenant: str
    alone: bool


def next_job(first: Iterable[First], taken: Collection[Taken], limits: Jobs, last: str) -> First | None:
    """Return which of the tenants' first jobs is taken up; None where all have to wait.

    `last` is the tenant whose turn it was: that of the others comes before its own.
    """
    if len(taken) >= limits.at_once or any(one.alone for one in taken):
        return None
    free = [one for one in first if sum(each.tenant == one.tenant for each in taken) < limits.at_once_per_tenant]
    chosen = min(free, key=lambda one: (one.tenant <= last, one.tenant), default=None)
    return None if chosen is not None and chosen.crashes and taken else chosen
