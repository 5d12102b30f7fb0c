"""A folder that receives orders, one file each: its readers see whole files only.

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
from engine.interchange.orders.laboratory.connectors.connector import SendVerdict, stay
from engine.interchange.orders.laboratory.message.build import Envelope, write_order
from engine.interchange.orders.laboratory.message.datatypes import UnwritableError
from engine.interchange.orders.laboratory.order import LaboratoryOrder
from engine.interchange.store.transmission import TransmissionOutcome

DONE: Final = "done"
SUFFIX: Final = ".hl7"
UNFINISHED: Final = ".part"


class DirectoryConnector:
    """The connector of type `directory`."""

    def __init__(self, settings: LaboratoryConnector, processing_id: str, at: datetime) -> None:
        self._settings = settings
        self._processing_id = processing_id
        self._at = at
        self._folder = Path(settings.folder or ".")

    async def transmit(self, order: LaboratoryOrder, control_id: str) -> SendVerdict:
        """Write the file of an order by a rename, unless it is there."""
        try:
            message = write_order(order, self._settings, Envelope(control_id, self._at, self._processing_id))
        except UnwritableError as error:
            return SendVerdict(TransmissionOutcome.REFUSED, "unwritable", str(error))
        laying = asyncio.ensure_future(asyncio.to_thread(self._lay, message, control_id))
        try:
            return await asyncio.shield(laying)
        except asyncio.CancelledError:
            # It takes milliseconds, and its end is what is known of the order.
            stay()
            return await laying

    async def ask(self, control_id: str) -> SendVerdict:
        """Look whether the file was laid."""
        return await asyncio.to_thread(self._look, control_id)

    def _look(self, control_id: str) -> SendVerdict:
        name = f"{control_id}{SUFFIX}"
        try:
            if not self._folder.is_dir():
                return SendVerdict(
                    TransmissionOutcome.UNKNOWN, "no-folder", f"{self._folder} is no folder that can be read"
                )
            there = (self._folder / name).exists() or (self._folder / DONE / name).exists()
        except OSError as error:
            return SendVerdict(
                TransmissionOutcome.UNKNOWN, "no-folder", f"{self._folder} cannot be read ({error.strerror})"
            )
        return SendVerdict(TransmissionOutcome.ACCEPTED) if there else SendVerdict(TransmissionOutcome.NEVER_HAD_IT)

    def _lay(self, message: bytes, control_id: str) -> SendVerdict:
        known = self._look(control_id)
        if known.outcome is TransmissionOutcome.ACCEPTED:
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
            return SendVerdict(
                TransmissionOutcome.UNREACHABLE, "unwritten", f"{self._folder} cannot be written to ({error.strerror})"
            )
        fault.point("F40")
        try:
            sync(self._folder)
        except OSError as error:
            return SendVerdict(
                TransmissionOutcome.UNKNOWN, "unsynced", f"{self._folder} cannot be synced ({error.strerror})"
            )
        return SendVerdict(TransmissionOutcome.ACCEPTED)
