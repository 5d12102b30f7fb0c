"""Edited files put in force from the playground: checked and tested first, recorded, and taken back in one click."""

import sqlite3
from collections.abc import AsyncIterator
from html import unescape
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from engine.errors import UsageError
from engine.ops.access.actor import Role
from engine.ops.operations.publishing import PublishMappings
from engine.ops.sender.line import send_messages
from tests.flow.rig import running
from tests.ops.operations.stage import actor
from tests.ops.playground.bench_site import CASES, PATIENT
from tests.ops.playground.bench_site import site as mapping_site
from tests.ops.web.conftest import Site, message, start
from tests.ops.web.person import PASSWORD, Person
from tests.ops.web.test_playground import Fields

FILE = "resources/patient.yaml"
# No case of the site speaks of the gender, so that all hold; the service says unknown where there is none.
NO_GENDER = PATIENT + "  gender:\n"


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    """An engine that allows it, with mapping files of its own."""
    async with running(tmp_path) as rig:
        mapping_site(tmp_path / "mappings")
        rig.engine.arguments = (*rig.engine.arguments, "--mappings", "mappings", "--publish-mappings")
        made = await start(rig)
        await made.person("author")
        try:
            yield made
        finally:
            for person in made.people.values():
                await person.close()


async def _edited(one: Person, text: str, **more: str) -> dict[str, str]:
    """Open the site's Patient and return the form as it is once the text is edited."""
    await one.get("/playground")
    await one.post("/playground/open", {"wanted": FILE})
    fields = Fields(one.page).values
    return {**fields, "text": text, "reason": "ticket 4711", **more}


def _on_disk(site: Site) -> str:
    return (site.rig.folder / "mappings" / FILE).read_text()


async def _gender(site: Site, control_id: str, number: str) -> object:
    """Send a message and return the gender that the service has then."""
    before = len(site.rig.rows())
    await send_messages(*await site.rig.address(), [message(control_id, number)])
    await site.rig.until(lambda rows: len(rows) > before and rows[-1].state == "delivered")
    (patient,) = await site.rig.numbered(number)
    return patient.get("gender")


@pytest.mark.smoke
async def test_an_edit_is_put_in_force_and_taken_back(site: Site) -> None:
    """The next message is mapped by it, the file is on the disk, the trail says who, what and why; then all is back."""
    author = site.people["author"]
    answer = await author.post("/playground/publish", await _edited(author, NO_GENDER, accept_lost="yes"))
    assert answer.status_code == 303, answer.text
    assert _on_disk(site) == NO_GENDER
    assert await _gender(site, "P1", "RB-81") == "unknown"
    await author.get("/playground?said=published")
    assert "ticket 4711" in author.page
    answer = await author.post("/playground/take-back", {"publication": "1"})
    assert answer.status_code == 303, answer.text
    assert _on_disk(site) == PATIENT
    assert await _gender(site, "P2", "RB-82") == "female"
    rows = [row for row in await site.act("audit.list", limit=100) if row["act"].startswith("mappings.")]
    assert [(row["act"], row["actor"], row["outcome"]) for row in rows] == [
        ("mappings.take-back", "author", "asked"),
        ("mappings.publish", "author", "asked"),
    ]
    assert (rows[1]["detail"]["edited"], rows[1]["reason"]) == ([FILE], "ticket 4711")
    listed = await site.act("mappings.publications")
    assert [(one["number"], one["state"], one["can_be_taken_back"]) for one in listed] == [
        (2, "in force", True),
        (1, "taken back", False),
    ]


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        pytest.param({"text": PATIENT + "  brithDate: PID-7\n"}, "resources/patient.yaml:5:3", id="a mistake"),
        pytest.param(
            {"text": PATIENT.replace("PID-7", "EVN-2")},
            "1 cases differ (tests/born.yaml:2 born on a leap day)",
            id="a case that differs",
        ),
        pytest.param({"text": NO_GENDER, "reason": " "}, "say why", id="no reason"),
        pytest.param({"text": NO_GENDER}, "elements would be made no longer (Patient.gender", id="an element is lost"),
        pytest.param(
            {"text": "resource: Patient\nelements:\n  birthDate: PID-7 | date\n"},
            "neither extends nor replaces",
            id="a file that extends nothing",
        ),
        pytest.param(
            {"text": "resource: Patient\nreplaces: shipped/patient\nelements:\n  birthDate: PID-7 | date\n"},
            "elements would be made no longer (Patient.identifier",
            id="a file that replaces all of the shipped one",
        ),
        pytest.param(
            {"text": NO_GENDER, f"base:{FILE}": "0" * 64}, "changed since you opened it", id="not what it was"
        ),
        pytest.param({"text": PATIENT}, "nothing is edited", id="no edit"),
        pytest.param(
            {"text": NO_GENDER, "edit:tests/born.yaml": CASES.replace("1984-02-29", "1985-01-01")},
            "tests/born.yaml changed since",
            id="a file that was never opened",
        ),
    ],
)
async def test_what_is_wrong_changes_nothing(site: Site, edit: dict[str, str], why: str) -> None:
    """Why not stands on the page with all that was typed; neither the disk nor the mapping in force is another."""
    author = site.people["author"]
    answer = await author.post("/playground/publish", await _edited(author, **{"text": "", **edit}))
    assert answer.status_code == 422
    assert why in unescape(answer.text)
    assert Fields(author.page).values["text"] == edit["text"]
    assert _on_disk(site) == PATIENT
    assert await site.act("mappings.publications") == []


async def test_an_element_that_only_real_messages_have_is_missed(site: Site) -> None:
    """No case has the Z field: of the newest messages one had it, which is all that an author is shown of it."""
    with_z = PATIENT + "  maritalStatus: {text: ZPI-2}\n"
    (site.rig.folder / "mappings" / FILE).write_text(with_z)
    raw = message("Z1", "RB-77").rstrip(b"\r") + b"\rZPI|1|Verwitwet\r"
    await send_messages(*await site.rig.address(), [raw])
    author = site.people["author"]
    edited = await _edited(author, PATIENT)
    answer = unescape((await author.post("/playground/test", edited)).text)
    assert "Patient.maritalStatus.text" in answer
    assert "0 messages of cases, 1 of the newest 1" in answer
    assert "Verwitwet" not in answer
    refused = unescape((await author.post("/playground/publish", edited)).text)
    assert "1 elements would be made no longer (Patient.maritalStatus.text" in refused
    assert _on_disk(site) == with_z
    done = await author.post("/playground/publish", {**edited, "accept_lost": "yes"})
    assert done.status_code == 303, done.text
    assert _on_disk(site) == PATIENT


async def test_it_needs_the_password_typed_just_now(site: Site) -> None:
    """Without that it is asked for, with the form carried along; with it the files are in force."""
    author = site.people["author"]
    with sqlite3.connect(site.rig.folder / "data" / "journal.db") as journal:
        journal.execute("UPDATE session SET confirmed_at = confirmed_at - 600000000")
    journal.close()
    answer = await author.post("/playground/publish", await _edited(author, NO_GENDER, accept_lost="yes"))
    assert answer.status_code == 403
    assert _on_disk(site) == PATIENT
    fields = {**Fields(author.page).values, "confirm_password": PASSWORD}
    answer = await author.post("/playground/publish", fields)
    assert answer.status_code == 303, answer.text
    assert _on_disk(site) == NO_GENDER


async def test_a_reload_that_refuses_puts_the_files_back(site: Site) -> None:
    """A mistake elsewhere, which only the reload sees: nothing is in force, and the files are as they were."""
    author = site.people["author"]
    form = await _edited(author, NO_GENDER, accept_lost="yes")
    (site.rig.folder / "channels" / "other.yaml").write_text("channel: b\nlisten: {mllp: {port: x}}\n")
    answer = await author.post("/playground/publish", form)
    assert answer.status_code == 422
    assert "nothing was changed" in answer.text
    assert _on_disk(site) == PATIENT
    assert [one["state"] for one in await site.act("mappings.publications")] == ["refused"]


async def test_others_may_not(site: Site) -> None:
    """An operator tries what it wants to, and puts nothing in force; the form is not even there."""
    operator = await site.person("operator")
    form = await _edited(operator, NO_GENDER)
    assert "/playground/publish" not in operator.page
    assert (await operator.post("/playground/publish", form)).status_code == 403
    assert (await operator.post("/playground/take-back", {"publication": "1"})).status_code == 403
    assert _on_disk(site) == PATIENT


@pytest.mark.parametrize(
    ("publish", "is_shared", "why"),
    [
        pytest.param(False, False, "from its folder alone", id="an installation that does not allow it"),
        pytest.param(True, True, "put them on every node", id="several nodes"),
    ],
)
async def test_where_it_is_not_allowed_it_says_what_to_do(
    tmp_path: Path, publish: bool, is_shared: bool, why: str
) -> None:
    """Refused before anything is looked at."""
    files = SimpleNamespace(publish=publish, mappings=tmp_path, data=tmp_path)
    engine: Any = SimpleNamespace(files=files, journal=SimpleNamespace(is_shared=is_shared))
    asked = PublishMappings.parse({"edited": {FILE: NO_GENDER}, "base": {FILE: ""}, "reason": "x"})
    with pytest.raises(UsageError, match=why):
        await asked.run(engine, actor(Role.AUTHOR))
