"""Operations that look after the journal: a backup is recorded, old entries are removed now."""

from typing import Final

from engine.clock import now
from engine.ops.access.actor import Actor, Permission
from engine.ops.operations.operation import Operation
from engine.ops.views.answer import Answer, Count
from engine.pipeline.engine import Engine
from engine.pipeline.maintenance.journal import prune_all


class BackupFolder(Answer):
    """The folder whose journal is backed up."""

    data: str


class Pruned(Answer):
    """How many bodies and how many whole entries were removed."""

    bodies: Count
    entries: Count


class AnnounceBackup(Operation[BackupFolder]):
    """Record that a backup is being made; the command that asks makes it, from the file."""

    name = "journal.backup"
    permission = Permission.CARE

    async def run(self, engine: Engine, _actor: Actor) -> BackupFolder:
        """Return the data folder."""
        return BackupFolder(data=str(engine.files.data))


class PruneJournal(Operation[Pruned]):
    """Remove what is past the channels' retention."""

    name = "journal.prune"
    permission = Permission.CARE

    async def run(self, engine: Engine, _actor: Actor) -> Pruned:
        """Return how much was removed."""
        channels = {name: feed.channel for name, feed in engine.feeds.items()}
        return Pruned.model_validate(await prune_all(engine.journal, channels, now()))


CARE: Final = (AnnounceBackup, PruneJournal)
