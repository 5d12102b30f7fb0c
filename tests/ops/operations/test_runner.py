"""Every act by every role: who may, what is recorded before it is done, and what else is asked for."""

import asyncio
import resource
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import orjson
import pytest

from engine import fault
from engine.errors import (
    ForbiddenOperationError,
    JournalError,
    UnconfirmedOperationError,
    UnrecordedOperationError,
    UsageError,
)
from engine.ops.access.actor import Actor, Permission, Role
from engine.ops.audit.trail import AUDITED
from engine.ops.operations.fields import EntryNumbers, Force, Verbatim
from engine.ops.operations.filters import PageOf, SearchFilter
from engine.ops.operations.operation import Operation
from engine.ops.operations.table import ALL
from engine.pipeline.engine import Engine
from tests.journal.desk import entry
from tests.ops.operations.stage import Stage, actor, stand_in

ACCESS = Path(__file__).parents[3] / "engine/ops/docs/access.md"

# Written by hand, from the requirement: who may what. An administrator sees nothing of a patient.
MAY = {
    "viewer": "metadata",
    "viewer-phi": "metadata phi",
    "operator": "metadata phi operate channels mappings",
    "author": "metadata mappings publish",
    "auditor": "audit",
    "admin": "metadata users channels care",
    "sender": "send",
    "owner": "metadata phi operate channels mappings publish audit users care send",
}


def test_roles_and_permissions_are_the_ones_of_the_requirement() -> None:
    """No role and no permission is missing in this test's own table."""
    assert set(MAY) == set(Role)
    assert set(MAY["owner"].split()) == set(Permission)


def test_the_help_tells_each_role() -> None:
    """The table on the help page about access is the one of this test."""
    table = ACCESS.read_text().split("<!-- roles -->\n")[1].split("<!-- /roles -->")[0]
    rows = [[cell.strip(" `") for cell in line.strip("|\n ").split("|")] for line in table.splitlines()[2:]]
    assert {role: may.replace(",", "") for role, _whom, may in rows} == MAY


def test_acts_have_names_of_their_own() -> None:
    """No act hides another one."""
    assert len({one.name for one in ALL}) == len(ALL)


@pytest.mark.parametrize("role", Role)
async def test_every_act_by_every_role(role: Role, stage: Stage) -> None:
    """An act runs where its permission is the role's, and nowhere else; what is refused is in the audit trail."""
    operations = stage.operations(*(stage.operation(one.name) for one in ALL))
    for one in ALL:
        stage.ran.clear()
        if one.permission.value in MAY[role.value].split():
            assert await operations.answer(one.name, actor(role), {}) == "done"
            assert [name for name, _rows in stage.ran] == [one.name]
        else:
            with pytest.raises(ForbiddenOperationError, match=role.value):
                await operations.answer(one.name, actor(role), {})
            assert stage.ran == []
            row = stage.rows()[-1]
            assert (row.act, row.role, row.outcome, row.reason) == (
                one.name,
                role,
                "refused",
                "ForbiddenOperationError",
            )


@pytest.mark.parametrize("permission", Permission)
async def test_what_shows_or_changes_is_recorded_before_it_is_done(permission: Permission, stage: Stage) -> None:
    """When the act runs its row is durable already, with who, from where and by which way."""
    given = {"entry": 7, "reason": "ticket 4711"}
    await stage.operations(stage.operation("an.act", permission)).answer("an.act", actor(Role.OWNER), given)
    rows = stage.ran[0][1]
    if permission not in AUDITED:
        assert rows == ()
        return
    assert [(row.seq, row.actor, row.role, row.via, row.address) for row in rows] == [
        (1, "ann", "owner", "page", "192.0.2.7")
    ]
    assert (rows[0].act, rows[0].entry, rows[0].outcome, rows[0].reason) == ("an.act", 7, "asked", "ticket 4711")
    assert len(stage.rows()) == 1  # a success adds nothing


def test_nothing_is_done_unrecorded_but_what_tells_no_secrets() -> None:
    """The permissions that are not audited are the two that show nothing of a patient and change nothing."""
    assert set(Permission) - AUDITED == {Permission.METADATA, Permission.MAPPINGS, Permission.SEND}


@pytest.mark.parametrize(
    ("error", "outcome"),
    [pytest.param(UsageError("no"), "refused", id="refused"), pytest.param(ValueError("no"), "failed", id="failed")],
)
async def test_what_came_to_nothing_is_a_second_row(error: Exception, outcome: str, stage: Stage) -> None:
    """It names the first one; the error is told by its kind, as its text may hold anything."""

    async def run(*_given: Any) -> None:
        raise error

    operations = stage.operations(stand_in("messages.replay", run))
    with pytest.raises(type(error)):
        await operations.answer("messages.replay", actor(), {"entry": 7})
    asked, ended = stage.rows()
    assert (asked.outcome, asked.follows) == ("asked", None)
    assert (ended.outcome, ended.follows, ended.act) == (outcome, asked.seq, "messages.replay")
    assert ended.reason == type(error).__name__


async def test_an_act_that_cannot_be_recorded_is_not_done(stage: Stage) -> None:
    """A closed journal: the act is refused with what to look at, and never runs."""
    operations = stage.operations(stage.operation())
    await stage.journal.close()
    with pytest.raises(UnrecordedOperationError, match="was not done"):
        await operations.answer("messages.replay", actor(), {"entry": 7})
    assert stage.ran == []


async def test_on_a_full_disk_nothing_is_done(stage: Stage) -> None:
    """The system refuses to let the journal grow: acts fail, that one and all after it, and none has run."""
    operations = stage.operations(stage.operation())
    await operations.answer("messages.replay", actor(), {"entry": 1})
    size = (stage.folder / "journal.db-wal").stat().st_size
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        for number in range(3):
            with pytest.raises(UnrecordedOperationError):
                await operations.answer("messages.replay", actor(), {"entry": 2, "reason": "x" * 400 * number})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert len(stage.ran) == 1
    assert stage.journal.failed
    assert len(stage.failures) == 1
    with pytest.raises(JournalError):
        await stage.journal.write(lambda connection: connection.execute("SELECT 1"))


async def test_a_fault_between_record_and_act_leaves_it_undone(stage: Stage) -> None:
    """At F19 the row stands, and the act has not begun."""
    fault.arm("F19:raise")
    try:
        with pytest.raises(fault.InjectedFaultError):
            await stage.operations(stage.operation()).answer("messages.replay", actor(), {"entry": 7})
    finally:
        fault._armed.clear()
    assert stage.ran == []
    assert [(row.outcome, row.follows) for row in stage.rows()] == [("asked", None), ("failed", 1)]


async def test_acts_at_the_same_moment_keep_the_chain(stage: Stage) -> None:
    """Two hundred acts at once, some refused, some failing: each has its rows, and the chain holds."""

    async def run(self: Any, _engine: Any, _actor: Any) -> None:
        await asyncio.sleep(0)
        if self.entry % 3 == 0:
            raise UsageError("no")

    operations = stage.operations(stand_in("messages.replay", run))
    roles = (Role.OPERATOR, Role.VIEWER)
    await asyncio.gather(
        *(operations.answer("messages.replay", actor(roles[n % 5 == 0]), {"entry": n}) for n in range(1, 201)),
        return_exceptions=True,
    )
    rows = stage.rows()
    assert [row.seq for row in rows] == list(range(1, len(rows) + 1))
    assert sum(row.outcome == "asked" for row in rows) == 160
    assert sum(row.outcome == "refused" for row in rows) == 40 + len([n for n in range(1, 201) if n % 3 == 0 and n % 5])


class Everything(SearchFilter, PageOf, Operation[None]):
    """Take what every operation takes."""

    name = "messages.everything"
    permission = Permission.OPERATE

    message: Verbatim = ""
    entries: EntryNumbers = ()
    filter: SearchFilter = SearchFilter()
    discard_original: Force = False

    @classmethod
    def parse(cls, given: Mapping[str, object], *, written: bool = False) -> Self:
        """Take all of it, whatever it is."""
        return cls.model_construct(**{**given, "written": written})

    async def run(self, _engine: Engine, _actor: Actor) -> None:
        """Do nothing."""


async def test_of_what_was_given_nothing_of_a_patient_is_kept(stage: Stage) -> None:
    """Names and numbers of ours stay; texts, visits and unknown keys leave their name, a patient leaves marks."""
    given = {
        "state": "held",
        "channel": "riverbend-adt",
        "patient": "https://mrn.riverbend.example|4711",
        "visit": "V0815",
        "text": "Kanarivogel",
        "message": "MSH|...",
        "limit": 50,
        "entries": [1, 2],
        "filter": {"state": "held", "patient": "4712", "event": "A08"},
        "surprise": "Kanarivogel",
        "discard_original": False,
        "reason": "",
    }
    await stage.operations(Everything).answer("messages.everything", actor(), given)
    row = stage.rows()[0]
    assert orjson.loads(row.detail) == {
        "channel": "riverbend-adt",
        "discard_original": False,
        "entries": [1, 2],
        "filter": {"event": "A08", "given": ["patient"], "state": "held"},
        "given": ["patient", "visit", "text", "message", "surprise"],
        "limit": 50,
        "state": "held",
    }
    assert set(orjson.loads(row.patients)) == set(stage.keys.marks("https://mrn.riverbend.example|4711"))
    wal = (stage.folder / "journal.db-wal").read_bytes()
    assert not [word for word in (b"4711", b"4712", b"V0815", b"Kanarivogel") if word in wal]


async def test_whose_messages_were_seen_can_be_found(stage: Stage) -> None:
    """A row about an entry carries the marks of its patients, so that one can ask who saw their messages."""
    key = "https://mrn.riverbend.example|4711"
    seq = (await stage.journal.record(entry("C1", (key, "https://mrn.other.example|99")))).seq
    operations = stage.operations(stage.operation("messages.show"), stage.operation("replays.start"))
    await operations.answer("messages.show", actor(), {"entry": seq})
    await operations.answer("messages.show", actor(), {"entry": seq + 1})
    await operations.answer("replays.start", actor(), {"entries": [seq]})
    for patient in (key, "4711", "99"):
        assert [row.seq for row in stage.rows(marks=stage.keys.marks(patient)[:1])] == [1, 3]
    assert stage.rows(marks=stage.keys.marks("https://mrn.other.example|4711")[:1]) == ()


@pytest.mark.parametrize("name", ["messages.discard", "messages.export", "audit.export", "users.add", "tokens.revoke"])
async def test_some_acts_need_a_password_typed_just_now(name: str, stage: Stage) -> None:
    """Without it they are refused, on the record; with it, and at the terminal, they run."""
    operations = stage.operations(stage.operation(name))
    person = actor(Role.OWNER, confirmed=False)
    with pytest.raises(UnconfirmedOperationError):
        await operations.answer(name, person, {})
    assert stage.rows()[-1].reason == "UnconfirmedOperationError"
    await operations.answer(name, replace(person, confirmed=True), {})
    await operations.answer(name, actor(Role.OWNER, via="socket"), {})


@pytest.mark.parametrize(
    ("name", "switch"),
    [("messages.replay", "force"), ("messages.edit", "discard_original")],
)
async def test_grave_switches_need_a_password_typed_just_now(name: str, switch: str, stage: Stage) -> None:
    """A replay needs none, a replay by force does; a list of accounts does not."""
    operations = stage.operations(stage.operation(name), stage.operation("users.list"))
    person = actor(Role.OWNER, confirmed=False)
    await operations.answer(name, person, {"entry": 1})
    await operations.answer("users.list", person, {})
    with pytest.raises(UnconfirmedOperationError):
        await operations.answer(name, person, {"entry": 1, switch: True})


async def test_a_token_limited_to_channels_sees_nothing_else(stage: Stage) -> None:
    """It lists the messages of a channel that it names; what cannot be bounded by a channel is refused."""
    names = ("messages.list", "messages.search", "messages.show", "messages.replay", "stats", "alive")
    operations = stage.operations(*(stage.operation(name, Permission.METADATA) for name in names))
    program = actor(Role.OPERATOR, via="api", channels=("riverbend-adt",))
    for name in names[:2]:
        await operations.answer(name, program, {"channel": "riverbend-adt"})
        for given in ({}, {"channel": "other"}, {"channel": None}, {"channel": ["riverbend-adt"]}):
            with pytest.raises(ForbiddenOperationError, match="riverbend-adt"):
                await operations.answer(name, program, given)
    for name in names[2:]:
        with pytest.raises(ForbiddenOperationError):
            await operations.answer(name, program, {"channel": "riverbend-adt", "entry": 1})


async def test_an_unknown_act_is_no_act(stage: Stage) -> None:
    """It is told so, and nothing is recorded."""
    with pytest.raises(UsageError, match=r"no\.such"):
        await stage.operations(stage.operation()).answer("no.such", actor(), {})
    assert stage.rows() == ()
