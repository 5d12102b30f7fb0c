"""A laboratory's file loaded into a database, with or without a running service.

What is as the file says is only read. The rest is written in short commits with pauses between them, so that the
service's own writes come in between; whatever was interrupted is finished by loading again. The Organization comes
last: a new laboratory takes orders once all of its tests are there.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Final, TypeVar

from engine.config.model import nearest
from engine.config.service import ServiceConfiguration
from engine.errors import UsageError
from engine.interchange.orders.compendium.files.read import Compendium
from engine.interchange.orders.compendium.made import QUESTIONNAIRE, TEST, WantedResource, wanted
from engine.interchange.orders.compendium.settle import (
    ORGANIZATION,
    CompendiumFile,
    ResourceChange,
    SettleOutcome,
    left_over,
    make,
    move_for,
    organization_move,
    retirement,
)
from engine.interchange.rest.resource.catalogue import INDEXERS
from engine.interchange.store.access import append, by_command
from engine.interchange.store.place import Place, open_known
from engine.interchange.store.store import Store
from engine.interchange.store.transaction import Transaction, milliseconds

T = TypeVar("T")

BASE: Final = "R4"
BATCH: Final = "batch"
# How long one commit holds the writer, and how many resources are compared on one snapshot.
COMMIT_SECONDS: Final = 0.02
SNAPSHOT: Final = 200


@dataclass(slots=True)
class Summary:
    """How many resources of each type became what."""

    laboratory: str
    counts: dict[str, Counter[SettleOutcome]] = field(
        default_factory=lambda: {name: Counter() for name in (ORGANIZATION, TEST, QUESTIONNAIRE)}
    )

    def note(self, type_name: str, outcome: SettleOutcome) -> None:
        """Count one resource."""
        self.counts[type_name][outcome] += 1


def load(
    configuration: ServiceConfiguration,
    database: Place,
    tenant: str,
    compendium: Compendium,
    clock: Callable[[], datetime],
    report: Callable[[int, int], None],
) -> Summary:
    """Bring what a tenant keeps of a laboratory to what its file says; `report` hears how many of how many are done.

    UsageError: there is no such tenant; StartError: there is no database of a service.
    """
    if tenant not in configuration.tenants:
        raise UsageError(f"there is no tenant {tenant!r}; {nearest(tenant, configuration.tenants)}")
    # What is loaded into a database made just now, no service would know.
    open_known(database).close()
    environment = configuration.environment
    store = Store(database, configuration.tenants, clock, INDEXERS, alone=False, environment=environment)
    file = CompendiumFile(compendium.laboratory, configuration.service_identifier_system)
    try:
        return asyncio.run(_Load(store, tenant, file, clock, report).run(compendium))
    finally:
        store.close()


class _Load:
    """One load: its store, whose tenant's and which file it is, and what has become of it so far."""

    def __init__(
        self,
        store: Store,
        tenant: str,
        file: CompendiumFile,
        clock: Callable[[], datetime],
        report: Callable[[int, int], None],
    ) -> None:
        self.store = store
        self.tenant = tenant
        self.file = file
        self.clock = clock
        self.report = report
        self.summary = Summary(file.laboratory.id)
        self.done = 0

    async def run(self, compendium: Compendium) -> Summary:
        every = [one for test in compendium.tests for one in wanted(test, self.file.laboratory, self.file.sis)]
        for part in _parts(every, SNAPSHOT):
            await self._bring([partial(_move, file=self.file, one=one) for one in part])
            self.done += len(part)
            self.report(self.done, len(every))
        gone = self.store.read(self.tenant, partial(_left_over, file=self.file, codes=_codes(every)))
        for keys in _parts(gone, SNAPSHOT):
            await self._bring([partial(retirement, key=key) for key in keys])
        await self._bring([partial(organization_move, file=self.file)])
        return self.summary

    async def _bring(self, moves: Sequence[Callable[[Transaction], ResourceChange]]) -> None:
        """Look at some resources on one snapshot, and change those that are not as they should be."""
        found = self.store.read(self.tenant, lambda transaction: [one(transaction) for one in moves])
        todo = [one for one, move in zip(moves, found, strict=True) if move.outcome is not SettleOutcome.UNCHANGED]
        for move in found:
            if move.outcome is SettleOutcome.UNCHANGED:
                self.summary.note(move.type, move.outcome)
        while todo:
            began = time.monotonic()
            made = await self.store.write(self.tenant, partial(self._commit, todo))
            for move in made:
                self.summary.note(move.type, move.outcome)
            todo = todo[len(made) :]
            # As long as the writer was held, it is free for others.
            await asyncio.sleep(time.monotonic() - began)

    def _commit(
        self, moves: Sequence[Callable[[Transaction], ResourceChange]], transaction: Transaction
    ) -> list[ResourceChange]:
        """Make the first changes, as many as one commit has time for; looked at again, for others write, too."""
        until = time.monotonic() + COMMIT_SECONDS
        made: list[ResourceChange] = []
        for one in moves:
            move = one(transaction)
            make(transaction, move)
            made.append(move)
            if time.monotonic() > until:
                break
        what = (ORGANIZATION, self.file.laboratory.id)
        row = by_command(milliseconds(self.clock()), self.tenant, BASE, BATCH, what, "")
        append(transaction.connection, (row,))
        return made


def _move(transaction: Transaction, *, file: CompendiumFile, one: WantedResource) -> ResourceChange:
    return move_for(transaction, file, one)


def _left_over(transaction: Transaction, *, file: CompendiumFile, codes: Mapping[str, frozenset[str]]) -> list[int]:
    return list(left_over(transaction, file, codes))


def _codes(every: Sequence[WantedResource]) -> dict[str, frozenset[str]]:
    return {name: frozenset(one.code for one in every if one.type == name) for name in (TEST, QUESTIONNAIRE)}


def _parts(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    rest = iter(items)
    while part := list(islice(rest, size)):
        yield part
