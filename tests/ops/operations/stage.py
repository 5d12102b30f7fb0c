"""A stage for acts: a real journal and trail below, acts that tell what they saw when they ran."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from engine.journal.access.audited import AuditFilter, AuditReader, AuditRow
from engine.journal.journal import Journal
from engine.ops.access.actor import Actor
from engine.ops.access.keys import Keys
from engine.ops.access.role import Permission, Role
from engine.ops.audit.trail import Trail
from engine.ops.operations.act import Act, Acts

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


@dataclass
class Stage:
    """One journal and what was done on it: `ran` holds each act with the audit rows that were durable by then."""

    folder: Path
    journal: Journal
    keys: Keys
    failures: list[BaseException]
    ran: list[tuple[str, tuple[AuditRow, ...]]] = field(default_factory=list)

    @classmethod
    async def open(cls, folder: Path) -> "Stage":
        """Open the journal of a folder."""
        failures: list[BaseException] = []
        journal = await Journal.open(folder, clock=lambda: NOW, fail=failures.append)
        return cls(folder, journal, Keys.of(folder), failures)

    @property
    def trail(self) -> Trail:
        """The trail of this journal."""
        return Trail(self.journal, self.keys, lambda: NOW)

    @property
    def engine(self) -> Any:
        """What an act may ask for of the engine: the journal and the files."""
        return SimpleNamespace(journal=self.journal, files=SimpleNamespace(data=self.folder))

    def acts(self, *acts: Act) -> Acts:
        """Return acts that are performed here."""
        return Acts(self.engine, acts, self.trail)

    def act(self, name: str = "messages.replay", permission: Permission = Permission.OPERATE) -> Act:
        """Return an act that does nothing but tell that it ran, and what the file held then."""

        async def run(_engine: Any, _actor: Actor, _given: Mapping[str, Any]) -> str:
            self.ran.append((name, self.rows()))
            return "done"

        return Act(name, permission, run)

    def rows(self, **given: Any) -> tuple[AuditRow, ...]:
        """Return the audit rows of the file, oldest first."""
        with AuditReader(self.folder) as reader:
            return tuple(reversed(reader.rows(AuditFilter(**given), limit=1000)))


def actor(role: Role = Role.OPERATOR, **given: Any) -> Actor:
    """Return somebody at a page."""
    return Actor(**({"name": "ann", "role": role, "via": "page", "address": "192.0.2.7"} | given))
