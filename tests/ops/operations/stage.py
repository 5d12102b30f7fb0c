"""A stage for operations: a real journal and trail below, operations that tell what they saw when they ran."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from engine.journal.access.audited import AuditFilter, AuditReader, StoredAuditRow
from engine.journal.journal import Journal
from engine.ops.access.actor import Actor, Permission, Role
from engine.ops.access.keys import Keys
from engine.ops.audit.trail import AuditTrail
from engine.ops.operations.operation import Operation
from engine.ops.operations.runner import Operations
from engine.ops.operations.table import ALL

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


@dataclass
class Stage:
    """One journal and what was done on it: `ran` holds each operation with the audit rows that were durable by then."""

    folder: Path
    journal: Journal
    keys: Keys
    failures: list[BaseException]
    ran: list[tuple[str, tuple[StoredAuditRow, ...]]] = field(default_factory=list)

    @classmethod
    async def open(cls, folder: Path) -> "Stage":
        """Open the journal of a folder."""
        failures: list[BaseException] = []
        journal = await Journal.open(folder, clock=lambda: NOW, fail=failures.append)
        return cls(folder, journal, Keys.of(folder), failures)

    @property
    def trail(self) -> AuditTrail:
        """The trail of this journal."""
        return AuditTrail(self.journal, self.keys, lambda: NOW)

    @property
    def engine(self) -> Any:
        """What an operation may ask for of the engine: the journal and the files."""
        return SimpleNamespace(journal=self.journal, files=SimpleNamespace(data=self.folder))

    def operations(self, *known: type[Operation[Any]]) -> Operations:
        """Return operations that are done here."""
        return Operations(self.engine, known, self.trail)

    def operation(self, name: str = "messages.replay", permission: Permission | None = None) -> type[Operation[Any]]:
        """Return an operation that does nothing but tell that it ran, and what the file held then.

        It takes what the one of that name takes, whatever its values are.
        """

        async def run(_self: Any, _engine: Any, _actor: Actor) -> str:
            self.ran.append((name, self.rows()))
            return "done"

        return stand_in(name, run, permission)

    def rows(self, **given: Any) -> tuple[StoredAuditRow, ...]:
        """Return the audit rows of the file, oldest first."""
        with AuditReader(self.folder) as reader:
            return tuple(reversed(reader.rows(AuditFilter(**given), limit=1000)))


def stand_in(name: str, run: Any, permission: Permission | None = None) -> type[Operation[Any]]:
    """Return the operation of a name with another way to run; one of another name is like a release."""
    known = {one.name: one for one in ALL}
    of = known.get(name) or known["messages.release"]

    def parse(_cls: Any, given: Mapping[str, object], *, written: bool = False) -> Any:
        return made.model_construct(**{**given, "written": written})

    body = {
        "__module__": __name__, "name": name, "permission": permission or of.permission, "run": run,
        "parse": classmethod(parse), "answer_type": classmethod(lambda _cls: str),
    }  # fmt: skip
    made: Any = type(Operation)("StandIn", (of,), body)
    return made


def actor(role: Role = Role.OPERATOR, **given: Any) -> Actor:
    """Return somebody at a page."""
    return Actor(**({"name": "ann", "role": role, "via": "page", "address": "192.0.2.7"} | given))
