"""Held work in bulk: what is ticked is shown, tried and confirmed first; what is held again is told; particulars."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from engine.ops.sender.line import send_messages
from tests.ops.web.conftest import Site, message
from tests.ops.web.story import BEHIND, HELD, HELD_TOO, event, night


@pytest.fixture
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    """The night's engine."""
    async with night(tmp_path_factory.mktemp("held")) as made:
        yield made


async def planned(site: Site, do: str, *entries: int) -> str:
    """Tick entries on the page of held work and ask for a plan; return what carries it."""
    operator = await site.person("operator")
    await operator.get("/lanes")
    for entry in entries:
        assert f'name="entry-{entry}"' in operator.page
    answer = await operator.post("/lanes/plan", {"do": do, **{f"entry-{one}": "interchange" for one in entries}})
    assert answer.status_code == 200
    return operator.page.partition('name="plan" value="')[2].partition('"')[0]


async def ended(site: Site, address: str) -> dict[str, object]:
    """Wait until a run has ended, and return it."""
    number = int(address.partition("?")[0].rpartition("/")[2])
    while True:
        run: dict[str, object] = await site.act("replays.progress", run=number)
        if run["state"] == "done":
            return run


async def test_the_counts_of_the_menu_are_live(site: Site) -> None:
    """Each page asks for them anew by itself, which keeps no session alive; what is released is gone from them."""
    operator = await site.person("operator")
    await operator.get("/messages")
    assert 'hx-get="/live/menu"' in operator.page
    assert 'id="count-lanes">2<' in operator.page
    await site.act("messages.discard", entry=HELD_TOO, reason="a test")
    for _ in range(100):
        await operator.get("/live/menu")
        if 'id="count-lanes" hx-swap-oob="true">1<' in operator.page:
            break
        await asyncio.sleep(0.1)
    assert 'id="count-lanes" hx-swap-oob="true">1<' in operator.page
    assert 'id="count-alerts" hx-swap-oob="true"' in operator.page


async def test_held_rows_say_for_whom_and_what_is_missing(site: Site) -> None:
    """Name and number for who may see patients; the element that is missing for everybody; boxes for who operates."""
    operator, viewer = await site.person("operator"), await site.person("viewer")
    await operator.get("/lanes")
    for said in ("Alderton, Hugo", "RB-20", "Castellan, Greta", "Patient.birthDate", f'name="entry-{HELD}"'):
        assert said in operator.page, said
    await viewer.get("/lanes")
    assert "Patient.birthDate" in viewer.page
    for hidden in ("Alderton", "RB-20", "entry-", "Release"):
        assert hidden not in viewer.page, hidden
    rows = await site.act("lanes.list")
    assert [(one["entry"], one["particulars"]) for one in rows] == [
        (HELD, ["Patient.birthDate"]),
        (HELD_TOO, ["Patient.birthDate"]),
    ]
    acts = [row["act"] for row in await site.act("audit.list", limit=50)]
    assert "messages.named" in acts


async def test_what_would_be_held_again_is_said_before_and_what_was_afterwards(site: Site) -> None:
    """The plan tries the entries without a write; the run names those that ended held, and why."""
    kept = await planned(site, "release", HELD, HELD_TOO)
    operator = await site.person("operator")
    assert "<b>0 of 2</b> that were tried would be delivered" in operator.page
    assert [row.state for row in site.rig.rows()].count("held") == 2
    answer = await operator.post("/lanes/start", {"plan": kept})
    run = await ended(site, answer.headers["location"])
    assert (run["kind"], run["counts"]) == ("release", {"held": 2})
    assert run["again"] == [{"entry": one, "reason": "missing-required"} for one in (HELD, HELD_TOO)]
    await operator.get(answer.headers["location"])
    assert "Held again:" in operator.page
    await send_messages(*await site.rig.address(), [message("N9", "RB-20", "Alderton^Hugo")])
    await site.rig.until(lambda rows: [row.state for row in rows[HELD - 1 : HELD]] == ["delivered"])


async def test_ticked_entries_are_discarded_with_a_reason_and_who_waited_goes_on(site: Site) -> None:
    """No reason, no discard; with one both end, under the name of who did it, and it stands in no list of runs."""
    kept = await planned(site, "discard", HELD, HELD_TOO)
    operator = await site.person("operator")
    assert "never delivered" in operator.page
    refused = await operator.post("/lanes/start", {"plan": kept, "because": " "})
    assert refused.status_code == 422
    kept = operator.page.partition('name="plan" value="')[2].partition('"')[0]
    answer = await operator.post("/lanes/start", {"plan": kept, "because": "Hugo's twins, ticket 7"})
    run = await ended(site, answer.headers["location"])
    assert (run["kind"], run["counts"], run["by"]) == ("discard", {"discarded": 2}, "operator")
    assert "twins" not in str(run)
    await site.rig.until(lambda rows: [rows[at - 1].state for at in (HELD, BEHIND)] == ["discarded", "held"])
    shown = await site.act("messages.show", entry=HELD)
    assert (shown["deliveries"][0]["reason"], shown["deliveries"][0]["by"]) == ("Hugo's twins, ticket 7", "operator")


async def test_nothing_is_done_where_nothing_is_ticked_or_nothing_is_chosen(site: Site) -> None:
    """A form without a tick is shown again; a discard of everything, and numbers beside filters, are refused."""
    operator = await site.person("operator")
    await operator.get("/lanes")
    assert (await operator.post("/lanes/plan", {"do": "discard"})).status_code == 422
    assert "tick the entries that you mean" in operator.page
    assert (await operator.post("/lanes/plan", {"do": "burn"})).status_code == 400
    await operator.get("/lanes")
    assert (await operator.post("/lanes/start", {"plan": "long ago"})).status_code == 404
    for given in ({"because": "x"}, {"entries": [HELD], "reason": "missing-required", "because": "x"}):
        assert "error" in await site.rig.ask("lanes.discard", **given)
    assert [row.state for row in site.rig.rows()].count("held") == 2


async def test_all_held_for_a_reason_are_planned_together(site: Site) -> None:
    """The filter stands on the plan; a retry of an entry that is delivered is refused in the run."""
    operator = await site.person("operator")
    await operator.get("/lanes")
    await operator.post("/lanes/plan", {"do": "retry", "reason": "missing-required"})
    assert "Retry 2 messages?" in operator.page
    run = await site.act("lanes.retry", entries=[1])
    run = await ended(site, f"/runs/{run['run']}")
    assert run["counts"] == {"refused": 1}


async def test_a_conflict_names_its_records_and_numbers_to_who_may_see_them(site: Site) -> None:
    """Both records with their numbers on the message's page; nothing of them for a viewer; links where one chooses."""
    both = event("A31^ADT_A05", "N9", "RB-10", "150000").replace(b"RB-10^^^RVB^MR", b"RB-50^^^RVB^MR~RB-51^^^RVB^MR")
    await send_messages(
        *await site.rig.address(),
        [
            event("A28^ADT_A05", "X1", "RB-50", "140000", name="Dunmore^Felix"),
            event("A28^ADT_A05", "X2", "RB-51", "140100", name="Everhart^Elowen"),
            both,
        ],
    )
    rows = await site.rig.until(lambda found: len(found) == 11 and found[-1].state == "held")
    assert rows[-1].reason == "identity-conflict"
    shown = (await site.act("messages.show", entry=11))["deliveries"][0]["involved"]
    assert sorted(number.rpartition("|")[2] for one in shown for number in one["numbers"]) == ["RB-50", "RB-51"]
    operator, viewer = await site.person("operator"), await site.person("viewer")
    await operator.get("/messages/11")
    for one in shown:
        assert one["record"] in operator.page
    assert sorted(one["person"] for one in shown) == [
        "Dunmore, Felix, born 1984-02-29", "Everhart, Elowen, born 1984-02-29",
    ]  # fmt: skip
    await operator.get("/lanes?reason=identity-conflict")
    for one in shown:
        for said in (one["record"], one["person"], one["role"]):
            assert said in operator.page, said
    for page in ("/messages/11", "/lanes?reason=identity-conflict", "/overview"):
        await viewer.get(page)
        for hidden in (shown[0]["record"], "RB-50", "Dunmore", "Everhart"):
            assert hidden not in viewer.page, (page, hidden)
    await operator.get("/messages/11/choose?destination=interchange")
    assert "Links" in operator.page


async def test_the_look_at_a_held_patient_is_on_record_once_for_a_log_in(site: Site) -> None:
    """Reloads, live refreshes and other held rows of a patient add no look; another log-in or patient adds one."""
    operator = await site.person("operator", "ann")
    for page in ("/overview", "/lanes", "/lanes", "/lanes?reason=missing-required", "/overview"):
        await operator.get(page)
        assert "Alderton, Hugo" in operator.page
    async with operator.http.stream("GET", "/live/overview") as stream:
        async for line in stream.aiter_lines():
            if "Alderton, Hugo" in line:
                break
    assert await looks(site, "ann") == [[HELD, HELD_TOO]]
    await site.act("messages.discard", entry=HELD, reason="a test")
    await site.rig.until(lambda rows: rows[BEHIND - 1].state == "held")
    await operator.get("/lanes")
    assert f'name="entry-{BEHIND}"' in operator.page
    assert await looks(site, "ann") == [[HELD, HELD_TOO]]
    await send_messages(*await site.rig.address(), [message("N9", "RB-22", "Dunmore^Felix", born="")])
    await site.rig.until(lambda rows: len(rows) == 9 and rows[-1].state == "held")
    await operator.get("/lanes")
    assert await looks(site, "ann") == [[9], [HELD, HELD_TOO]]
    await operator.post("/log-out")
    await operator.log_in("ann")
    await operator.get("/lanes")
    assert await looks(site, "ann") == [[BEHIND, HELD_TOO, 9], [9], [HELD, HELD_TOO]]


async def test_each_look_of_a_program_is_on_record(site: Site) -> None:
    """A token has no log-in: each call is one look."""
    token = await site.token("operator", "night-job")
    bearer = {"authorization": f"Bearer {token}"}
    stranger = await site.stranger()
    for _ in range(2):
        answer = await stranger.http.post("/api/v1/messages/named", json={"entries": [HELD]}, headers=bearer)
        assert answer.json()[0]["name"] == "Alderton, Hugo"
    assert await looks(site, "night-job") == [[HELD], [HELD]]


async def looks(site: Site, name: str) -> list[list[int]]:
    """The entries of each look at names that somebody has on record, newest first."""
    rows = await site.act("audit.list", limit=200)
    return [row["detail"]["entries"] for row in rows if row["act"] == "messages.named" and row["actor"].endswith(name)]
