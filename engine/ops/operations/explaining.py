"""The operation that explains why an entry's message is mapped as it is."""

import asyncio

from pydantic import Field

from engine.ops.access.actor import Actor, Permission
from engine.ops.operations.fields import EntryNumber, Word
from engine.ops.operations.operation import Operation
from engine.ops.views.entry import Explained
from engine.pipeline.engine import Engine


class ExplainMessage(Operation[Explained]):
    """Explain, by the current mapping files, why an entry's message is mapped as it is."""

    name = "messages.explain"
    permission = Permission.PHI

    entry: EntryNumber
    element: Word = Field("", description="Only this element, such as Patient.birthDate.")
    field: Word = Field("", description="Only what this field went into, such as PID-7.")

    async def run(self, engine: Engine, _actor: Actor) -> Explained:
        """Return the explanation; UsageError where the entry's channel is gone."""
        from engine.ops.views.explaining import explained_entry  # noqa: PLC0415 - rare, and slow to import

        channels = {name: feed.channel for name, feed in engine.feeds.items()}
        return await asyncio.to_thread(
            explained_entry, engine.files, channels, self.entry, element=self.element, field=self.field
        )
