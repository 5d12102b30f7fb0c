"""Numbers of entries and times: the terminal, the socket, the API and the pages say the same of what is none."""

import asyncio
from typing import Any

import httpx
import orjson
import pytest
from typer.testing import CliRunner

from engine.__main__ import app
from engine.errors import AdtEngineError, UsageError
from tests.flow.operator import finished
from tests.ops.command import command
from tests.ops.web.conftest import DELIVERED, HELD, Site

UNKNOWN = 99_999
# What names an entry: the command before its number, the act, the page.
COMMANDS = (
    ("messages", "show"),
    ("messages", "explain"),
    ("messages", "check", "--id"),
    ("messages", "replay"),
    ("messages", "replay", "--dry-run"),
    ("messages", "release"),
    ("messages", "retry"),
    ("messages", "discard", "--reason", "x"),
    ("messages", "edit", "--yes", "--set", "PID-8=F"),
    ("messages", "resolve"),
    ("lanes", "show"),
)
ACTS: dict[str, dict[str, Any]] = {
    "show": {}, "facts": {}, "explain": {}, "replay": {}, "release": {}, "retry": {}, "rehearse": {}, "matches": {},
    "discard": {"reason": "x"}, "edit": {"set": {"PID-8": "F"}}, "resolve": {"patient": "1"},
}  # fmt: skip
PAGES = ("", "/explain", "/edit", "/choose")
NO_NUMBERS = (True, 0, -1, 1.0, 1.5, 2**63, "1", None)


def typed(*words: str) -> tuple[int, str]:
    """Run a command here; return how it ends, as `main` does, and what it says."""
    result = CliRunner().invoke(app, list(words))
    if isinstance(error := result.exception, AdtEngineError):
        return 2 if isinstance(error, UsageError) else 1, str(error)
    return result.exit_code, result.output


async def test_an_unknown_entry_is_told_as_such_by_every_command(site: Site) -> None:
    """One line on standard error that names it, and no success."""
    for words in COMMANDS:
        code, said = await asyncio.to_thread(typed, *words, str(UNKNOWN), "--data", str(site.rig.folder / "data"))
        assert (code, f"there is no entry {UNKNOWN}" in said) == (1, True), (words, said)


async def test_an_unknown_entry_is_told_as_such_by_every_act(site: Site) -> None:
    """Over the socket, alone or among others."""
    acts = {f"messages.{name}": {"entry": UNKNOWN, **more} for name, more in ACTS.items()}
    acts |= {"lanes.show": {"entry": UNKNOWN}}
    acts |= {name: {"entries": [DELIVERED, UNKNOWN]} for name in ("replays.plan", "replays.start")}
    for act, given in acts.items():
        answer = await site.rig.ask(act, **given)
        assert answer == {"error": f"there is no entry {UNKNOWN}", "exit": 1}, act


async def test_an_unknown_entry_is_told_as_such_by_api_and_pages(site: Site) -> None:
    """404 with the same words."""
    headers = {"authorization": f"Bearer {await site.token('operator', 'numbers')}"}
    person = await site.person("operator")
    for path in ("", "/facts", "/explain", "/matches"):
        answer = await person.http.get(f"/api/v1/messages/{UNKNOWN}{path}", headers=headers)
        assert (answer.status_code, answer.json()["detail"]) == (404, f"there is no entry {UNKNOWN}"), path
    answer = await person.http.get(f"/api/v1/lanes/{UNKNOWN}", headers=headers)
    assert (answer.status_code, answer.json()["detail"]) == (404, f"there is no entry {UNKNOWN}")
    for path in PAGES:
        shown = await person.get(f"/messages/{UNKNOWN}{path}")
        assert (shown.status_code, f"there is no entry {UNKNOWN}" in shown.text) == (404, True), path


@pytest.mark.parametrize("text", ["1.0", str(2**64), "true", "0", str(2**63)])
def test_what_is_no_number_is_wrong_use_of_every_command(text: str) -> None:
    """Exit 2 and a sentence; a fraction is not rounded, and a number too large is no fault of the engine."""
    more = (("messages", "replays", "--stop"), ("messages", "replay", "--resume"), ("audit", "list", "--entry"))
    for words in (*COMMANDS, *more, ("alerts", "acknowledge")):
        code, said = typed(*words, text)
        assert (code, f"{text} is not one" in said) == (2, True), (words, said)
        assert f"by its number, as `{'alerts' if words[0] == 'alerts' else 'messages'} " in said, words


async def test_what_is_no_number_is_wrong_use_of_every_act(site: Site) -> None:
    """A truth is not entry 1, and no number is too large for the journal."""
    for value in NO_NUMBERS:
        for name, more in ACTS.items():
            answer = await site.rig.ask(f"messages.{name}", entry=value, **more)
            assert answer["exit"] == 2, (name, value, answer)
            assert answer["error"].startswith("name an entry by its number"), (name, value, answer)
        for act in ("replays.stop", "replays.resume", "replays.progress"):
            assert (await site.rig.ask(act, run=value))["error"].startswith("name a run by its number"), (act, value)
        told = await site.rig.ask("alerts.acknowledge", alert=value)
        assert told["error"].startswith("name an alert by its number"), value
        assert (await site.rig.ask("replays.plan", entries=[1, value]))["exit"] == 2, value


async def test_what_is_no_number_is_on_no_page_and_at_no_address(site: Site) -> None:
    """404 with the sentence of the terminal, which repeats nothing here: it may be of a patient."""
    headers = {"authorization": f"Bearer {await site.token('operator', 'no-number')}"}
    person = await site.person("operator")
    for text in ("true", "0", "-1", "1.0", str(2**63), "Quintero"):
        told = (await person.http.get(f"/api/v1/messages/{text}", headers=headers)).json()
        but = ": 0 is not one" if text == "0" else ""
        said = f"name an entry by its number, as `messages list` shows it{but}"
        assert (told["status"], told["detail"]) == (404, said)
        for path in (*(f"/messages/{text}{one}" for one in PAGES), f"/runs/{text}"):
            shown = await person.get(path)
            assert (shown.status_code, "by its number" in shown.text) == (404, True), path


SINCE = ("12h", "7d", "2026-01-01", "2026-01-01T09:30", "2026-01-01T09:30Z", "2026-01-01T09:30+01:00")


async def test_times_are_written_alike_everywhere(site: Site) -> None:
    """Every act that takes `since` takes each form; a run keeps the moment that was meant, not `12h`."""
    for since in SINCE:
        for act in ("messages.list", "messages.counts", "codes.unmapped", "audit.list", "replays.plan"):
            assert "done" in await site.rig.ask(act, since=since), (act, since)
    run = await site.act("replays.start", since="12h", channel="riverbend-adt")
    assert "T" in run["filter"]["since"]
    assert not run["filter"]["since"].endswith("h")
    await finished(site.rig, run["run"])  # the tests behind this one count on entries that are delivered


async def test_what_is_no_time_is_told_alike_everywhere(site: Site) -> None:
    """The sentence says how times are written, and repeats nothing: a name may stand in the wrong field."""
    for act in ("messages.list", "messages.counts", "codes.unmapped", "audit.list", "replays.plan"):
        answer = await site.rig.ask(act, since="yesterday")
        assert answer["exit"] == 2, act
        forms = "2025-07-01, 2025-07-01T09:30, 22:00 for the last 22:00, or 12h for 12 h ago"
        assert answer["error"] == f"--since is not a time: write {forms}", act


async def test_a_bulk_run_of_the_last_hours_is_planned_at_the_terminal_and_on_the_page(site: Site) -> None:
    """`messages replay --since 12h` as `messages list --since 12h`; the page's form takes it as well."""
    data = site.rig.folder / "data"
    listed = await command("messages", "list", "--since", "12h", "--state", "delivered", "--json", data=data)
    count = len(orjson.loads(listed.stdout)["entries"])
    done = await command("messages", "replay", "--since", "12h", "--dry-run", data=data)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("would be ") == count
    person = await site.person("operator")
    await person.get("/runs")
    planned = await person.post("/runs/plan", {"since": "12h"})
    assert (planned.status_code, f"{count} " in planned.text) == (200, True)


async def test_held_work_of_a_delivered_entry_is_not_an_unknown_entry(site: Site) -> None:
    """What is there and has nothing unfinished is told apart from what is not there."""
    assert "nothing unfinished" in (await site.rig.ask("lanes.show", entry=DELIVERED))["error"]
    assert (await site.act("lanes.show", entry=HELD))["entry"] == HELD


async def test_the_api_takes_no_fraction_for_an_entry(site: Site) -> None:
    """In a body as in an address."""
    headers = {"authorization": f"Bearer {await site.token('operator', 'fractions')}"}
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{site.port}", headers=headers, trust_env=False) as http:
        for entries, status in (("1.0", 400), ("true", 400), ("0", 422), (2**63, 422), (2**64, 400), ("1", 200)):
            content, kind = f'{{"entries": [{entries}]}}', {"content-type": "application/json"}
            answer = await http.post("/api/v1/replays/plan", content=content, headers=kind)
            assert answer.status_code == status, (entries, answer.text)
