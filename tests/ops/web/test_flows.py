"""What people do on the pages, form by form, and what comes of it."""

import asyncio
import re
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from datetime import timedelta

import httpx
import pytest

from engine.ops.access.invitation import VALID_FOR, VALID_FOR_ACCOUNT
from engine.ops.sender.line import send_messages
from engine.security.passwords import SHORTEST, SHORTEST_WITH_TOTP
from tests.flow import operator
from tests.flow.proxy import Call, Fault
from tests.flow.rig import SECRET, free_port, running
from tests.ops.command import command
from tests.ops.web.conftest import Site, alike, message, start
from tests.ops.web.person import PASSWORD, Person

MICROS = 1_000_000

# A name that the destination refuses (422).
REFUSED = "Unwelcome^Ada"


def refusing(call: Call) -> Fault | None:
    """Refuse what names whom the destination does not want."""
    return Fault(status=422) if call.writes and b"Unwelcome" in call.body else None


@pytest.fixture(scope="module")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    """An engine for all tests here; what one of them does lasts, so that each has people and patients of its own."""
    listen = {"mllp": {"host": "127.0.0.1", "port": free_port()}}  # the same one after a stop and a start
    async with running(tmp_path_factory.mktemp("flows"), listen=listen) as rig:
        made = await start(rig)
        rig.proxy.script = refusing
        try:
            yield made
        finally:
            for person in made.people.values():
                await person.close()


async def _held(site: Site, number: str) -> int:
    """Let a message of a new patient be held and another one wait behind it; return the first one's entry."""
    first = len(site.rig.rows()) + 1
    feed = [message(f"{number}-{count}", number, born="") for count in (1, 2)]
    await send_messages(*await site.rig.address(), feed)
    await site.rig.until(lambda rows: [row.state for row in rows[first - 1 :]] == ["held", "waiting"])
    return first


def _age(site: Site, account: str, column: str, seconds: int) -> None:
    """Let something of an account's sessions be so much longer ago."""
    change = f"UPDATE session SET {column} = {column} - ? WHERE account = ?"  # noqa: S608 - one of three names
    with closing(sqlite3.connect(site.rig.folder / "data" / "journal.db", timeout=20)) as journal, journal:
        journal.execute(change, (seconds * MICROS, account))


async def test_a_discard_asks_for_the_password_when_it_was_typed_long_ago(site: Site) -> None:
    """The form is kept, a wrong password changes nothing, the right one discards; the session goes on anew."""
    one, entry = await site.person("operator", "discarder"), await _held(site, "FL-1")
    _age(site, "discarder", "confirmed_at", 600)
    await one.get(f"/messages/{entry}")
    asked = await one.post(f"/messages/{entry}/discard", {"reason": "sent by mistake"})
    assert (asked.status_code, "Confirm your password" in asked.text) == (403, True)
    assert 'name="reason" value="sent by mistake"' in asked.text
    wrong = {"reason": "sent by mistake", "confirm_password": "wrong", "confirm_totp": ""}
    assert (await one.post(f"/messages/{entry}/discard", wrong)).status_code == 403
    assert site.rig.rows()[entry - 1].state == "held"
    before = one.session
    right = wrong | {"confirm_password": PASSWORD}
    done = await one.post(f"/messages/{entry}/discard", right)
    assert done.headers["location"] == f"/messages/{entry}?said=discarded"
    assert one.session != before
    shown = (await one.get(done.headers["location"])).text
    assert "Discarded: <bdi>sent by mistake</bdi>" in shown
    await site.rig.until(lambda rows: [row.state for row in rows[entry - 1 : entry + 1]] == ["discarded", "held"])


async def test_a_session_ends_by_itself(site: Site) -> None:
    """After fifteen minutes without a click, and after twelve hours at the latest, the log-in comes."""
    one = await site.person("operator", "sleeper")
    _age(site, "sleeper", "seen_at", 16 * 60)
    assert (await one.get("/messages")).headers["location"] == "/log-in?to=/messages"
    await one.log_in("sleeper")
    assert (await one.get("/messages")).status_code == 200
    _age(site, "sleeper", "began_at", 12 * 3600 + 60)
    assert (await one.get("/messages")).status_code == 303


async def test_many_are_replayed_with_progress(site: Site) -> None:
    """What a run takes up is shown first; then it runs, its page says how it ended, and nothing has changed."""
    one = await site.person("operator")
    first = len(site.rig.rows()) + 1
    feed = [message(f"MANY{count}", f"FL-MANY-{count}").replace(b"A28^ADT_A05", b"A31^ADT_A05") for count in range(3)]
    await send_messages(*await site.rig.address(), feed)
    await site.rig.until(lambda rows: [row.state for row in rows[first - 1 :]] == ["delivered"] * 3)
    before = await site.rig.patients()
    await one.get("/runs")
    plan = await one.post("/runs/plan", {"state": "delivered", "event": "A31", "rate": "100"})
    assert "Replay 3 messages?" in plan.text
    kept = re.findall(r'name="plan" value="([^"]+)"', plan.text)[0]
    begun = await one.post("/runs/start", {"plan": kept})
    page = begun.headers["location"].partition("?")[0]
    async with asyncio.timeout(60):
        while 'class="state good">done' not in (await one.get(page)).text:  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.1)
    assert "3 of 3" in one.page
    assert await site.rig.patients() == before
    assert (await one.post("/runs/start", {"plan": "guessed"})).status_code == 404


async def test_a_run_of_nothing_or_of_nonsense_is_told(site: Site) -> None:
    """A time that is none, a rate that is none and a filter that finds nothing are said at the form."""
    one = await site.person("operator")
    for form in ({"since": "yesterday"}, {"rate": "x"}):
        await one.get("/runs")
        assert (await one.post("/runs/plan", form)).status_code == 422, form
    await one.get("/runs")
    nothing = (await one.post("/runs/plan", {"event": "A99"})).text
    assert "Replay 0 messages?" in nothing
    assert ">Start<" not in nothing


async def _released(one: Person, reason: str) -> httpx.Response:
    """Plan the release of all that is held for a reason, and begin it."""
    await one.post("/lanes/plan", {"do": "release", "reason": reason})
    kept = one.page.partition('name="plan" value="')[2].partition('"')[0]
    return await one.post("/lanes/start", {"plan": kept})


async def test_all_that_is_held_for_a_reason_is_released(site: Site) -> None:
    """Held work shows the reason's line and releases its entries as a run."""
    one, _ = await site.person("operator"), await _held(site, "FL-2")
    text = (await one.get("/lanes")).text
    assert "missing-required" in text
    assert "1 message of 1 patient" in text
    begun = await _released(one, "missing-required")
    assert begun.headers["location"].startswith("/runs/")
    assert (await one.get(begun.headers["location"])).status_code == 200


async def test_what_a_server_refused_is_listed_and_released_by_its_own_code(site: Site) -> None:
    """A code of a family of the table (`http-4*`) has its rows, its line, a link to that line, and its own button."""
    one, entry = await site.person("operator"), len(site.rig.rows()) + 1
    await send_messages(*await site.rig.address(), [message("FL-9", "FL-9", REFUSED)])
    await site.rig.until(lambda rows: [row.state for row in rows[entry - 1 :]] == ["held"])
    for path in ("/lanes", "/lanes?reason=http-422"):
        text = (await one.get(path)).text
        section = text.partition("http-422")[2].partition("</section>")[0]
        assert f'href="/messages/{entry}"' in section, path
        assert "The destination refused the request, and a retry would not help" in section
        assert 'name="reason" value="http-422"' in section
    text = (await one.get(f"/messages/{entry}")).text
    assert 'href="/reasons#http-4*"' in text
    assert ">http-422</a>" in text
    assert ">http-4*</a>" not in text
    begun = await _released(one, "http-422")
    run = int(begun.headers["location"].partition("?")[0].rpartition("/")[2])
    async with asyncio.timeout(20):
        while (told := await site.act("replays.progress", run=run))["state"] != "done":  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.05)
    assert (told["total"], told["counts"]) == (1, {"held": 1})
    await site.act("messages.discard", entry=entry, reason="a test")


async def test_what_cannot_wait_is_listed_first(site: Site) -> None:
    """However many are held for what can wait until morning, the reasons that cannot stand before them."""
    one = await site.person("operator")
    waits = [await _held(site, f"FL-1{number}") for number in (0, 1)]
    urgent = len(site.rig.rows()) + 1
    await send_messages(*await site.rig.address(), [message("FL-12", "FL-12", REFUSED)])
    await site.rig.until(lambda rows: [row.state for row in rows[urgent - 1 :]] == ["held"])
    text = (await one.get("/lanes")).text
    assert 0 < text.index("http-422") < text.index("missing-required")
    for entry in (*waits, urgent):
        await site.act("messages.discard", entry=entry, reason="a test")


async def test_a_channel_is_stopped_drained_and_started(site: Site) -> None:
    """An administrator stops a channel: nobody can connect; started again, messages come in."""
    one = await site.person("admin")
    assert "listening" in (await one.get("/channels")).text
    await one.post("/channels/stop", {"channel": "riverbend-adt"})
    assert 'class="state off">stopped' in (await one.get("/channels")).text
    drained = await one.post("/channels/drain", {"channel": "riverbend-adt"})
    assert "riverbend-adt is stopped" in drained.text
    await one.post("/channels/start", {"channel": "riverbend-adt"})
    await one.get("/channels")
    assert re.findall(r"127\.0\.0\.1:(\d+)</td>", one.page) == [str((await site.rig.address())[1])]
    count = len(site.rig.rows())
    await send_messages(*await site.rig.address(), [message("AGAIN", "FL-9")])
    await site.rig.until(lambda rows: len(rows) > count and rows[count].state == "delivered")


async def test_a_destination_is_paused_and_resumed(site: Site) -> None:
    """While it is paused the first page says so, with the reason that was given."""
    one = await site.person("operator")
    await one.get("/channels")
    await one.post("/destinations/pause", {"destination": "interchange", "reason": "upgrade until ten"})
    text = (await one.get("/overview")).text
    assert "interchange is paused" in text
    assert "upgrade until ten" in text
    await one.get("/channels")
    await one.post("/destinations/resume", {"destination": "interchange"})
    assert "interchange is paused" not in (await one.get("/overview")).text


async def test_the_settings_of_a_destination_are_shown_with_what_set_them(site: Site) -> None:
    """Those of its file first, the rest folded; of a secret only that it is set."""
    one = await site.person("viewer")
    text = (await one.get("/channels")).text
    _, _, settings = text.partition("<h2>Settings of interchange</h2>")
    own, _, rest = settings.partition("<details>")
    assert re.search(r"auth\.client_secret</th>.*?<bdi>set</bdi></td><td[^>]*>file<", own)
    assert SECRET not in text
    assert ("auth.client_id" in own, "timeout_seconds" in own, "timeout_seconds" in rest) == (True, False, True)


async def test_a_destination_is_tried_at_once(site: Site) -> None:
    """By whoever may work with entries, and not while it is paused; a viewer sees no button and is refused."""
    one, viewer = await site.person("operator"), await site.person("viewer")
    await one.get("/overview")
    answer = await one.post("/overview/retry", {"destination": "interchange"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/overview?said=tried")
    assert "being tried now" in (await one.get("/overview?said=tried")).text
    await one.get("/channels")
    await one.post("/destinations/pause", {"destination": "interchange", "reason": "upgrade"})
    assert 'action="/overview/resume"' in (await one.get("/overview")).text
    refused = await one.post("/overview/retry", {"destination": "interchange"})
    assert (refused.status_code, "destinations resume interchange" in refused.text) == (422, True)
    assert 'action="/overview/' not in (await viewer.get("/overview")).text
    await viewer.get("/account")
    assert (await viewer.post("/overview/retry", {"destination": "interchange"})).status_code == 403
    await one.get("/overview")
    await one.post("/overview/resume", {"destination": "interchange"})
    assert "interchange is paused" not in (await one.get("/overview")).text


async def test_charts_have_four_spans_and_a_table_each(site: Site) -> None:
    """By links, without a script; another span is none."""
    one = await site.person("viewer")
    for span in ("1h", "24h", "7d", "30d"):
        text = (await one.get(f"/overview?span={span}")).text
        assert f'href="/overview?span={span}#charts" aria-current="true"' in text
        assert f'sse-connect="/live/overview?span={span}"' in text
        assert "Show as a table" in text
    assert (await one.get("/overview?span=2h")).status_code == 404
    assert (await one.get("/live/overview?span=2h")).status_code == 404


async def test_charts_of_a_period_are_a_link(site: Site) -> None:
    """From the form on the page, which keeps what was typed; what is no period is refused in words."""
    one = await site.person("viewer")
    answer = await one.get("/overview?since=2h&until=1h")
    assert answer.status_code == 200
    assert re.findall(r'name="(?:since|until)"[^>]*value="([^"]*)"', answer.text) == ["2h", "1h"]
    assert 'sse-connect="/live/overview?since=2h&amp;until=1h"' in answer.text
    assert "aria-current" not in answer.text.partition('class="spans"')[2].partition("</ul>")[0]
    for asked, why in {
        "since=1h&until=2h": "From is not before Until: there is nothing in between",
        "since=99d": "Charts go back 40 days: choose a later From",
        "since=soon": "From is not a time",
        "span=24h&since=2h": "Span and From are two beginnings",
    }.items():
        refused = await one.get(f"/overview?{asked}")
        assert (refused.status_code, why in refused.text) == (422, True), asked


async def test_volumes_lead_to_the_messages_that_they_count(site: Site) -> None:
    """By channel, sender and event: each link's list has as many rows as the number says."""
    await send_messages(*await site.rig.address(), [message("VOLUME", "FL-21")])
    one = await site.person("operator")
    text = (await one.get("/overview?span=1h")).text
    links = re.findall(r'href="(/messages\?(?:channel|source|event)=[^"]+)">[^<]+</a></th><td class="num">(\d+)<', text)
    assert {link.partition("?")[2].partition("=")[0] for link, _count in links} == {"channel", "source", "event"}
    for link, count in links:
        rows = (await one.get(link.replace("&amp;", "&"))).text.partition("<tbody")[2].count("<tr")
        assert rows == int(count), link


async def test_accounts_and_tokens_are_kept(site: Site) -> None:
    """An administrator adds an account by a link that is shown once, changes its role, disables it; tokens too."""
    one = await site.person("admin")
    await one.get("/users")
    added = await one.post("/users/add", {"name": "eve", "role": "viewer"})
    link = re.findall(r"/set-up\?name=eve&amp;token=([\w-]+)", added.text)[0]
    assert link not in (await one.get("/users")).text
    eve = Person(site.port)
    assert (await eve.set_up(link, "eve")).status_code == 303
    await one.get("/users")
    await one.post("/users/role", {"name": "eve", "role": "auditor"})
    assert (await eve.get("/")).headers["location"] == "/audit"
    await one.post("/users/change", {"name": "eve", "change": "disable"})
    assert (await eve.get("/audit")).status_code == 303
    assert (await one.post("/users/change", {"name": "eve", "change": "promote"})).status_code == 400
    made = await one.post("/tokens/add", {"name": "reports", "role": "viewer", "days": "7"})
    token = re.findall(r"adt_[\w-]+", made.text)[0]
    headers = {"authorization": f"Bearer {token}"}
    assert (await eve.http.get("/api/v1/messages", headers=headers)).status_code == 200
    await one.post("/tokens/revoke", {"name": "reports"})
    assert (await eve.http.get("/api/v1/messages", headers=headers)).status_code == 401
    await eve.close()


async def test_the_audit_trail_is_read_proven_and_saved(site: Site) -> None:
    """An auditor sees who looked at which entry, finds it by the patient, proves the trail and saves it as a file."""
    operator, auditor = await site.person("operator"), await site.person("auditor")
    await operator.get(f"/messages/{await _held(site, 'FL-3')}")
    text = (await auditor.get("/audit")).text
    assert "messages.show" in text
    place = (await auditor.post("/audit/search", {"patient": "FL-3"})).headers["location"]
    assert "FL-3" not in place
    found = (await auditor.get(place)).text
    assert "messages.show" in found
    assert "each bound to the one before" in (await auditor.post("/audit/verify")).text
    await auditor.get("/audit")
    saved = await auditor.post("/audit/export", {"search": ""})
    assert saved.headers["content-disposition"] == 'attachment; filename="audit.csv"'
    assert saved.text.startswith("row,at,actor,role")
    assert "messages.show" in saved.text


async def test_of_two_who_act_on_one_entry_the_second_is_told(site: Site) -> None:
    """Both look at the same held message; who discards it first has done it, and the other hears how it stands."""
    one, other = await site.person("operator"), await site.person("operator", "colleague")
    entry = await _held(site, "FL-14")
    for person in (one, other):
        await person.get(f"/messages/{entry}")
    answers = await asyncio.gather(
        *(person.post(f"/messages/{entry}/discard", {"reason": "a duplicate"}) for person in (one, other))
    )
    assert sorted(answer.status_code for answer in answers) == [303, 409]
    late = next(answer for answer in answers if answer.status_code == 409)
    assert f"entry {entry} has nothing unfinished to discard" in late.text
    assert f'href="/messages/{entry}"' in late.text
    rows = await site.act("audit.list", limit=20)
    asked = {row["row"] for row in rows if (row["act"], row["entry"]) == ("messages.discard", entry)}
    assert len(asked) == 2
    assert [row["outcome"] for row in rows if row["follows"] in asked] == ["refused"]


async def test_what_an_edit_would_do_is_shown_and_what_is_wrong_with_it_is_said(site: Site) -> None:
    """Nothing changed, no message, no identity: said at the form, with the text kept; a good edit is rehearsed."""
    one, entry = await site.person("operator"), await _held(site, "FL-4")
    for text in ("MSH|^~\\&|X\nPID|1", "no message at all"):
        await one.get(f"/messages/{entry}/edit")
        answer = await one.post(f"/messages/{entry}/edit", {"message": text, "do": "replay", "reason": "x"})
        assert 400 <= answer.status_code < 500
        assert "notice bad" in answer.text
        assert text.partition("|")[0] in answer.text
    await one.get(f"/messages/{entry}/edit")
    good = message("FL-4-1", "FL-4").decode().replace("\r", "\r\n")
    told = await one.post(f"/messages/{entry}/edit", {"message": good, "do": "dry-run", "reason": ""})
    assert "What would happen" in told.text
    assert "1984-02-29" in told.text
    assert await site.rig.numbered("FL-4") == []


async def test_whoever_is_meant_is_chosen(site: Site) -> None:
    """Two records could be meant: the page shows both with their numbers; the chosen one gets the message."""
    one = await site.person("operator")
    first, second = [await alike(site) for _ in range(2)]
    entry = len(site.rig.rows()) + 1
    await send_messages(*await site.rig.address(), [message("CHOICE", "FL-7", "Alike^Marisol")])
    await site.rig.until(lambda rows: [row.reason for row in rows[entry - 1 :]] == ["multiple-matches"])
    shown = (await one.get(f"/messages/{entry}")).text
    assert f"/messages/{entry}/choose?destination=interchange" in shown
    page = (await one.get(f"/messages/{entry}/choose?destination=interchange")).text
    assert all(f'value="{patient}"' in page for patient in (first, second))
    assert "Alike, Marisol" in page
    assert "record is left" not in page
    chosen = await one.post(f"/messages/{entry}/choose", {"destination": "interchange", "patient": second})
    assert chosen.headers["location"] == f"/messages/{entry}?said=resolved"
    await site.rig.until(lambda rows: rows[entry - 1].state == "delivered")
    assert [body["id"] for body in await site.rig.numbered("FL-7")] == [second]


async def test_the_choice_offers_the_release_once_one_record_is_left(site: Site) -> None:
    """The page says so, its button releases the entry, and the record that is left gets the message."""
    one = await site.person("operator")
    first, second = [await operator.alike(site.rig, "Single") for _ in range(2)]
    entry = len(site.rig.rows()) + 1
    await send_messages(*await site.rig.address(), [message("LEFT", "FL-17", "Single^Marisol")])
    await site.rig.until(lambda rows: [row.reason for row in rows[entry - 1 :]] == ["multiple-matches"])
    await operator.merged(site.rig, first, second)
    page = (await one.get(f"/messages/{entry}/choose")).text
    assert "one record is left: release the entry " in page
    assert "adt-engine messages release" not in page
    assert f'action="/messages/{entry}/release"' in page
    await one.post(f"/messages/{entry}/release", {})
    await site.rig.until(lambda rows: rows[entry - 1].state == "delivered")
    assert [body["id"] for body in await site.rig.numbered("FL-17")] == [second]


async def test_what_was_overtaken_is_replayed_by_force_only(site: Site) -> None:
    """The dry run says that newer data was applied; without force it is refused; by force, after the password."""
    one = await site.person("operator", "forcer")
    entry = len(site.rig.rows()) + 1
    feed = [message("OLD", "FL-8", "Quintero^Old"), message("NEW", "FL-8", "Quintero^New")]
    await send_messages(*await site.rig.address(), feed)
    await site.rig.until(lambda rows: [row.state for row in rows[entry - 1 :]] == ["delivered"] * 2)
    await one.get(f"/messages/{entry}")
    told = await one.post(f"/messages/{entry}/rehearse")
    assert "Something newer was applied" in told.text
    assert "Force replay" in told.text
    assert (await one.post(f"/messages/{entry}/replay")).status_code == 409
    _age(site, "forcer", "confirmed_at", 600)
    await one.get(f"/messages/{entry}")
    assert "Confirm your password" in (await one.post(f"/messages/{entry}/force")).text
    done = await one.post(f"/messages/{entry}/force", {"confirm_password": PASSWORD})
    assert done.status_code == 303
    await site.rig.until(lambda rows: rows[entry - 1].state == "delivered")
    assert "by force" in (await one.get(f"/messages/{entry}")).text


async def test_an_edit_without_the_discard_waits_behind_its_original(site: Site) -> None:
    """The page of the new entry says that it waits, and for what."""
    one, entry = await site.person("operator"), await _held(site, "FL-5")
    await one.get(f"/messages/{entry}/edit")
    text = message("FL-5-1", "FL-5").decode().replace("\r", "\r\n")
    made = await one.post(f"/messages/{entry}/edit", {"message": text, "do": "replay", "reason": ""})
    assert made.headers["location"].endswith("?said=edited-waits")
    shown = (await one.get(made.headers["location"])).text
    assert "It waits until the original is delivered or discarded" in shown


async def test_rows_leave_only_after_the_password(site: Site) -> None:
    """A list is saved as a file by somebody who typed the password just now; the search is kept meanwhile."""
    one = await site.person("operator", "saver")
    await one.get("/messages")
    place = (await one.post("/messages/search", {"channel": "riverbend-adt"})).headers["location"]
    await one.get(place)
    _age(site, "saver", "confirmed_at", 600)
    search = {"search": place.partition("search=")[2]}
    asked = await one.post("/messages/export", search)
    assert (asked.status_code, "Confirm your password" in asked.text) == (403, True)
    saved = await one.post("/messages/export", search | {"confirm_password": PASSWORD})
    assert saved.headers["content-type"].startswith("text/csv")
    assert saved.text.startswith("entry,received_at")


async def test_pages_and_terminal_say_the_same_of_one_time_tokens(site: Site) -> None:
    """How long one is good, what a password must have, where it is chosen; a token is printed, no link."""
    person = await site.stranger()
    shown = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", (await person.get("/log-in")).text))
    assert "adt-engine users add NAME --role ROLE" in shown
    assert "adt-engine users setup" in shown
    assert "one-time token" in shown
    assert 'href="/set-up"' in person.page
    shown = (await person.get("/set-up")).text
    assert f"{VALID_FOR_ACCOUNT // timedelta(hours=1)} hours, or {VALID_FOR // timedelta(minutes=1)} minutes" in shown
    assert f"{SHORTEST} characters or more, {SHORTEST_WITH_TOTP} where one-time codes" in shown
    done = await command("users", "add", "bea", "--role", "viewer", data=site.rig.folder / "data")
    assert f"{SHORTEST} characters or more ({SHORTEST_WITH_TOTP} where one-time codes" in done.stderr
    assert "UTC: open /set-up" in done.stderr
    rows = await site.act("users.list")
    assert "bea" in [row["name"] for row in rows]
