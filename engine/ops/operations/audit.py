"""Operations on the audit trail: list, verify, anchor, and permission to export."""

import asyncio
from pathlib import Path
from typing import Final

from pydantic import Field

from engine.clock import now
from engine.errors import AdtEngineError
from engine.journal.access import audit
from engine.journal.access.audited import AuditFilter
from engine.ops.access.actor import Actor, Permission
from engine.ops.audit.anchors import Anchors
from engine.ops.operations.fields import AboutEntry, Patient, Since, Until, Word
from engine.ops.operations.filters import PageOf
from engine.ops.operations.operation import Confirm, Operation, Reading, Request
from engine.ops.views.answer import Answer, Count, Time
from engine.ops.views.auditing import AuditRow, Proof, listed, marks_of, verified
from engine.pipeline.engine import Engine


class TrailFilter(Request):
    """Which rows of the trail.

    `act`: an operation, or all of a group by its name and a dot (`users.`). `patient`: `value` or `system|value`.
    """

    actor: Word = Field("", description="Only of this account, token (token:NAME) or user.")
    act: Word = Field("", description="Only of this act, or of a group of acts: users. (with the dot).")
    outcome: Word = Field("", description="Only asked, refused or failed.")
    patient: Patient = ""
    since: Since = None
    until: Until = None
    entry: AboutEntry = 0

    def chosen(self, folder: Path) -> AuditFilter:
        """Return the filter; a patient is found by its marks, for which the folder's key is needed."""
        return AuditFilter(
            actor=self.actor,
            act=self.act,
            outcome=self.outcome,
            entry=self.entry or None,
            marks=marks_of(folder, self.patient),
            since=self.since,
            until=self.until,
        )


class Anchor(Answer):
    """The end of the trail, and the signature over it."""

    seq: Count
    at: Time
    hash: str
    key: str
    signature: str


class Leave(Answer):
    """The last row that may be exported."""

    upto: Count


class ListTrail(TrailFilter, PageOf, Reading[list[AuditRow]]):
    """List rows of the audit trail, newest first."""

    name = "audit.list"
    permission = Permission.AUDIT

    def read(self, folder: Path) -> list[AuditRow]:
        """Return the rows."""
        return listed(folder, self.chosen(folder), self.limit, self.before)


class VerifyTrail(Reading[Proof]):
    """Verify that no row was changed, removed, moved or cut off."""

    name = "audit.verify"
    permission = Permission.AUDIT

    def read(self, folder: Path) -> Proof:
        """Return what was found."""
        return verified(folder)


class AnchorTrail(Operation[Anchor]):
    """Sign the end of the trail, and add it to the anchors."""

    name = "audit.anchor"
    permission = Permission.AUDIT

    async def run(self, engine: Engine, _actor: Actor) -> Anchor:
        """Return the anchor; AdtEngineError where it cannot be written."""
        seq, hashed = await engine.journal.read(audit.head)
        anchors = Anchors.of(engine.files.data)
        try:
            return Anchor.of(await asyncio.to_thread(anchors.add, seq, hashed, now()))
        except OSError as error:
            raise AdtEngineError(f"the anchor cannot be written to {anchors.file} ({error.strerror})") from error


class ExportTrail(TrailFilter, Operation[Leave]):
    """Permit an export of the audit trail; the export is itself recorded in it."""

    name = "audit.export"
    permission = Permission.AUDIT
    confirm = Confirm.STEP_UP

    format: Word = Field("", description="ndjson, or csv.")

    async def run(self, engine: Engine, _actor: Actor) -> Leave:
        """Return up to where; UsageError for a patient that cannot be found."""
        self.chosen(engine.files.data)
        seq, _hashed = await engine.journal.read(audit.head)
        return Leave(upto=seq)


AUDIT: Final = (ListTrail, VerifyTrail, AnchorTrail, ExportTrail)
