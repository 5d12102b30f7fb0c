"""The list of messages: rows are ticked, or all that match, and planned in a dry run; columns are kept by a link."""

from collections.abc import AsyncIterator

import pytest

from tests.ops.web.conftest import Site
from tests.ops.web.story import FIRST, HELD, HELD_TOO, night
from tests.ops.web.test_held import ended


@pytest.fixture
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    """The night's engine."""
    async with night(tmp_path_factory.mktemp("selection")) as made:
        yield made


async def test_ticked_messages_are_tried_and_replayed(site: Site) -> None:
    """What would be delivered and what would be refused is said first; the run is over these entries alone."""
    operator = await site.person("operator")
    await operator.get("/messages")
    assert f'name="entry-{FIRST}"' in operator.page
    form = {"do": "replay", "search": "", f"entry-{FIRST}": "yes", f"entry-{HELD}": "yes"}
    assert (await operator.post("/messages/plan", form)).status_code == 200
    for said in ("Replay 2 messages?", "<b>0 of 2</b>", "Something newer was applied", "missing-required"):
        assert said in operator.page, said
    kept = operator.page.partition('name="plan" value="')[2].partition('"')[0]
    answer = await operator.post("/lanes/start", {"plan": kept})
    run = await ended(site, answer.headers["location"])
    assert (run["kind"], run["counts"]) == ("replay", {"refused": 1, "held": 1})


async def test_all_that_match_are_planned_whatever_the_page_shows(site: Site) -> None:
    """By the filters of the address or of a search, which may be of a patient; the plan leads back to the list."""
    operator = await site.person("operator")
    await operator.get("/messages?state=failed")
    assert f'name="entry-{HELD_TOO}"' in operator.page
    assert f'name="entry-{FIRST}"' not in operator.page
    assert 'name="shown-state" value="failed"' in operator.page
    await operator.post("/messages/plan", {"do": "retry", "search": "", "shown-state": "failed", "all": "yes"})
    assert "Retry 2 messages?" in operator.page
    assert 'href="/messages?state=failed"' in operator.page
    answer = await operator.post("/messages/search", {"patient": "RB-20", "columns": "state,reason"})
    address = answer.headers["location"]
    assert "RB-20" not in address
    assert address.endswith("&column=state&column=reason")
    search = address.partition("search=")[2].partition("&")[0]
    await operator.get(address)
    assert await operator.post("/messages/plan", {"do": "discard", "search": search, "all": "yes"})
    assert "Discard 2 messages?" in operator.page
    kept = operator.page.partition('name="plan" value="')[2].partition('"')[0]
    answer = await operator.post("/lanes/start", {"plan": kept, "because": "a test"})
    run = await ended(site, answer.headers["location"])
    assert run["counts"] == {"discarded": 2}


async def test_nothing_is_planned_without_a_tick_or_a_permission(site: Site) -> None:
    """No tick: refused, and said; a viewer has no boxes, and may not plan."""
    operator, viewer = await site.person("operator"), await site.person("viewer")
    await operator.get("/messages")
    assert (await operator.post("/messages/plan", {"do": "retry", "search": ""})).status_code == 422
    assert "tick the messages that you mean" in operator.page
    await operator.get("/messages")
    assert (await operator.post("/messages/plan", {"do": "burn", "search": ""})).status_code == 400
    await viewer.get("/messages")
    assert "entry-" not in viewer.page
    assert (await viewer.post("/messages/plan", {"do": "retry", f"entry-{HELD}": "yes"})).status_code == 403


async def test_columns_are_those_that_the_link_names(site: Site) -> None:
    """In the list, in its live rows, and in the links to older pages; an unknown name is none, and none means all."""
    operator = await site.person("operator")
    await operator.get("/messages?state=held&column=reason&column=event&column=nonsense")
    assert '<th scope="col">Reason</th><th scope="col">Event</th></tr>' in operator.page
    assert 'sse-connect="/live/messages?state=held&amp;column=reason&amp;column=event"' in operator.page
    assert 'name="columns" value="reason,event"' in operator.page
    await operator.get("/messages?column=nonsense")
    for heading in ("Received", "State", "Reason", "Event", "Control ID", "Channel", "Source", "ACK"):
        assert f'<th scope="col">{heading}</th>' in operator.page, heading
    assert 'name="columns"' not in operator.page


async def test_all_that_failed_since_a_time_are_tried_and_retried(site: Site) -> None:
    """One form of the page: the dry run counts by reason, the run begins with what was shown."""
    operator = await site.person("operator")
    await operator.get("/lanes")
    assert "Retry all that failed since" in operator.page
    await operator.post("/lanes/plan", {"do": "retry", "since": "noon", "reason": "", "destination": ""})
    assert "since is not a time" in operator.page
    await operator.post("/lanes/plan", {"do": "retry", "since": "12h", "reason": "missing-required", "destination": ""})
    for said in ("Retry 2 messages?", "<b>0 of 2</b>", "again", "Dry run, nothing written"):
        assert said in operator.page, said
    kept = operator.page.partition('name="plan" value="')[2].partition('"')[0]
    answer = await operator.post("/lanes/start", {"plan": kept})
    run = await ended(site, answer.headers["location"])
    assert (run["kind"], run["held"]) == ("retry", 2)
    assert set(run["filter"]) == {"reason", "since"}  # type: ignore[call-overload]


async def test_a_run_is_paused_resumed_and_stopped_on_its_page(site: Site) -> None:
    """Each state offers what it can do; a viewer sees how far it is, and no button."""
    operator, viewer = await site.person("operator"), await site.person("viewer")
    run = (await site.act("replays.start", state="delivered", rate=0.1))["run"]
    await operator.get(f"/runs/{run}")
    for said in (f"/runs/{run}/pause", f"/runs/{run}/stop", "Held again", "Rate", "of 5"):
        assert said in operator.page, said
    assert f"/runs/{run}/resume" not in operator.page
    assert (await operator.post(f"/runs/{run}/pause")).status_code == 303
    await operator.get(f"/runs/{run}")
    assert "paused" in operator.page
    assert f"/runs/{run}/resume" in operator.page
    assert f"/runs/{run}/pause" not in operator.page
    assert (await operator.post(f"/runs/{run}/stop")).status_code == 303
    await operator.get(f"/runs/{run}")
    assert f"/runs/{run}/stop" not in operator.page
    assert f"/runs/{run}/resume" in operator.page
    await viewer.get(f"/runs/{run}")
    assert "stopped" in viewer.page
    assert f"/runs/{run}/resume" not in viewer.page
    assert (await operator.post(f"/runs/{run}/resume")).status_code == 303
    assert (await ended(site, f"/runs/{run}"))["done"] == 5
