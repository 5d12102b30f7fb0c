"""A folder into which orders are laid, one file each: whoever collects them sees whole files only.

The file of an attempt has the name of its control id, so that there is never a second one: it is looked for first, in
the folder and in `done/` below it, to which a collector moves what it has taken.
"""

import asyncio
import os
from datetime import datetime
from pathlib import Path
from typing import Final

from engine import fault
from engine.config.laboratory import LaboratoryConnector
from engine.database.durable import sync
from engine.interchange.orders.laboratory.connectors.connector import Verdict, stay
from engine.interchange.orders.laboratory.message.build import Envelope, write_order
from engine.interchange.orders.laboratory.message.texts import UnwritableError
from engine.interchange.orders.laboratory.order import LaboratoryOrder
from engine.interchange.store.transmission import Outcome

DONE: Final = "done"
SUFFIX: Final = ".hl7"
UNFINISHED: Final = ".part"


class Directory:
    """The connector of type `directory`."""

    def __init__(self, settings: LaboratoryConnector, processing_id: str, at: datetime) -> None:
        self._settings = settings
        self._processing_id = processing_id
        self._at = at
        self._folder = Path(settings.folder or ".")

    async def transmit(self, order: LaboratoryOrder, control_id: str) -> Verdict:
        """Write the file of an order by a rename, unless it is there."""
        try:
            message = write_order(order, self._settings, Envelope(control_id, self._at, self._processing_id))
        except UnwritableError as error:
            return Verdict(Outcome.REFUSED, "unwritable", str(error))
        laying = asyncio.ensure_future(asyncio.to_thread(self._lay, message, control_id))
        try:
            return await asyncio.shield(laying)
        except asyncio.CancelledError:
            # It takes milliseconds, and its end is what is known of the order.
            stay()
            return await laying

    async def ask(self, control_id: str) -> Verdict:
        """Look whether the file was laid."""
        return await asyncio.to_thread(self._look, control_id)

    def _look(self, control_id: str) -> Verdict:
        name = f"{control_id}{SUFFIX}"
        try:
            if not self._folder.is_dir():
                return Verdict(Outcome.UNKNOWN, "no-folder", f"{self._folder} is no folder that can be read")
            there = (self._folder / name).exists() or (self._folder / DONE / name).exists()
        except OSError as error:
            return Verdict(Outcome.UNKNOWN, "no-folder", f"{self._folder} cannot be read ({error.strerror})")
        return Verdict(Outcome.ACCEPTED) if there else Verdict(Outcome.NEVER_HAD_IT)

    def _lay(self, message: bytes, control_id: str) -> Verdict:
        known = self._look(control_id)
        if known.outcome is Outcome.ACCEPTED:
            return known
        target = self._folder / f"{control_id}{SUFFIX}"
        unfinished = self._folder / f".{control_id}{UNFINISHED}"
        try:
            with unfinished.open("wb") as file:
                file.write(message)
                file.flush()
                os.fsync(file.fileno())
            unfinished.rename(target)
        except OSError as error:
            return Verdict(Outcome.UNREACHABLE, "unwritten", f"{self._folder} cannot be written to ({error.strerror})")
        fault.point("F40")
        try:
            sync(self._folder)
        except OSError as error:
            return Verdict(Outcome.UNKNOWN, "unsynced", f"{self._folder} cannot be synced ({error.strerror})")
        return Verdict(Outcome.ACCEPTED)
