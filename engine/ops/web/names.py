"""Patients' names in a list of entries, for actors who may see them; each look is audited, by the hundred entries."""

from collections.abc import Iterable, Mapping

from engine.ops.access.actor import Permission
from engine.ops.operations.patients import MOST_NAMED, NameEntries
from engine.ops.views.who import Named
from engine.ops.web.call import WebCall


async def names_of(call: WebCall, entries: Iterable[int]) -> Mapping[int, Named]:
    """Return whom entries are about, by entry; nothing for who may not see patients."""
    wanted = sorted(set(entries)) if call.may(Permission.PHI) else []
    found: dict[int, Named] = {}
    for at in range(0, len(wanted), MOST_NAMED):
        named = await call.perform(NameEntries, entries=wanted[at : at + MOST_NAMED])
        found |= {one.entry: one for one in named}
    return found
