"""What a restored journal does not bring back: ways in that ended since, and runs that nobody let go on."""

import asyncio
from functools import partial
from pathlib import Path

import pytest

from engine.journal.access import accounts, sessions
from engine.journal.access.audited import AuditFilter, AuditReader
from engine.journal.access.sessions import ApiTokenRow, SessionRow
from engine.journal.maintenance.backup import back_up, restore
from engine.journal.write import bulk_replay
from tests.journal.desk import LATE, NOW, Opener
from tests.journal.write.test_bulk_replay import begun

# A database is backed up by its own people.
pytestmark = pytest.mark.parametrize("address", ["sqlite"], indirect=True)

COOKIE, TOKEN, INVITATION = b"cookie", b"token", b"invitation"


async def test_sessions_and_one_time_tokens_do_not_come_back(opened: Opener, tmp_path: Path) -> None:
    """They may have ended since; accounts and tokens are as they were, and the trail tells of the restore."""
    (tmp_path / "data").mkdir()
    async with opened(folder=tmp_path / "data") as desk:
        session = SessionRow("ann", "viewer", "192.0.2.7", NOW, NOW, NOW, enrolling=False, offer=b"")
        token = ApiTokenRow("ehr", "sender", (), NOW, "root", LATE, None, None)
        await desk.journal.write(partial(accounts.add, name="ann", role="viewer", now=NOW, by="root"))
        await desk.journal.write(partial(accounts.invite, digest=INVITATION, account="ann", expires_at=LATE))
        await desk.journal.write(partial(sessions.begin, digest=COOKIE, session=session, most=10))
        await desk.journal.write(partial(sessions.add_token, digest=TOKEN, made=token))
        await asyncio.to_thread(back_up, desk.folder, tmp_path / "backup.db", lambda _what, _done, _all: None)
        assert await desk.journal.read(partial(sessions.find, digest=COOKIE)) is not None
    restore(tmp_path / "backup.db", tmp_path / "new", now=NOW)
    async with opened(folder=tmp_path / "new") as desk:
        assert await desk.journal.read(partial(sessions.find, digest=COOKIE)) is None
        assert await desk.journal.read(partial(accounts.invited, digest=INVITATION, now=NOW)) is None
        assert await desk.journal.read(partial(accounts.find, name="ann")) is not None
        assert await desk.journal.read(partial(sessions.token, digest=TOKEN)) is not None
    with AuditReader(tmp_path / "new") as reader:
        assert [row.act for row in reader.rows(AuditFilter(), 10)] == ["journal.restored"]
        assert reader.verify().faults == ()


async def test_a_bulk_run_does_not_go_on_in_a_restored_journal(opened: Opener, tmp_path: Path) -> None:
    """It knows of nothing that came after the backup, by force it would go over it; a person may resume it."""
    (tmp_path / "data").mkdir()
    async with opened(folder=tmp_path / "data") as desk:
        seq = await desk.record("1", ("s|1",))
        await desk.claim()
        await desk.deliver(seq)
        run = await begun(desk, seq, force=True)
        await asyncio.to_thread(back_up, desk.folder, tmp_path / "backup.db", lambda _what, _done, _all: None)
        assert await desk.journal.write(bulk_replay.recall) == (run.number,)
    restore(tmp_path / "backup.db", tmp_path / "new", now=NOW)
    async with opened(folder=tmp_path / "new") as desk:
        assert await desk.journal.write(bulk_replay.recall) == ()
        kept = await desk.journal.read(partial(bulk_replay.show, run=run.number))
        assert (kept.state, kept.ended_at) == (bulk_replay.RunState.STOPPED, NOW)
        assert await desk.journal.write(partial(bulk_replay.resume, run=run.number))
