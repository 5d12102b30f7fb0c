"""What shadow kept, delivered from the channels' page: counted and tried first, by who may operate, on the record."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from engine.ops.sender.line import send_messages
from tests.flow.operator import configured
from tests.flow.rig import running
from tests.ops.web.conftest import Site, message, start


@pytest.fixture
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    """An engine whose channel kept three messages in shadow: two of one patient, and one that would be held."""
    async with running(tmp_path_factory.mktemp("kept"), mode="shadow") as rig:
        made = await start(rig)
        await send_messages(
            *await rig.address(), [message("K1", "RB-1"), message("K2", "RB-1"), message("K3", "RB-2", born="")]
        )
        await rig.until(lambda rows: [row.state for row in rows] == ["filtered"] * 3)
        try:
            yield made
        finally:
            await asyncio.gather(*(person.close() for person in made.people.values()))


async def test_what_shadow_kept_is_counted_tried_and_delivered(site: Site) -> None:
    """A plan first, which in shadow offers nothing to press; then a run, in the trail under the operator's name."""
    operator, viewer = await site.person("operator"), await site.person("viewer")
    await viewer.get("/channels")
    assert "Deliver what was kept" not in viewer.page
    assert (await viewer.post("/channels/kept", {"channel": "riverbend-adt", "since": "12h"})).status_code == 403
    await operator.get("/channels")
    assert "Deliver what was kept" in operator.page
    form = {"channel": "riverbend-adt", "since": "12h", "until": "", "event": "", "reason": "shadow"}
    assert (await operator.post("/channels/kept", form)).status_code == 200
    assert 'name="plan"' not in operator.page
    assert "is in shadow" in operator.page
    await configured(site.rig)
    await operator.get("/channels")
    await operator.post("/channels/kept", form)
    for said in ("Deliver 3 messages", "3 A28", "2 of 3", "missing-required", 'name="plan"'):
        assert said in operator.page, said
    assert [row.state for row in site.rig.rows()] == ["filtered"] * 3
    kept = operator.page.partition('name="plan" value="')[2].partition('"')[0]
    begun = await operator.post("/channels/deliver", {"plan": kept})
    assert begun.status_code == 303
    assert begun.headers["location"].startswith("/runs/1")
    await site.rig.until(lambda rows: [row.state for row in rows] == ["delivered", "delivered", "held"])
    trail = await site.act("audit.list", limit=50)
    assert ("operator", "kept.start") in {(one["actor"], one["act"]) for one in trail}


async def test_a_plan_says_what_is_missing(site: Site) -> None:
    """Without a beginning, or with one that is no time, the form comes back and says so; an old plan is gone."""
    operator = await site.person("operator")
    await operator.get("/channels")
    for since in ("", "yesterday"):
        answer = await operator.post("/channels/kept", {"channel": "riverbend-adt", "since": since})
        assert answer.status_code == 422
        assert "since" in operator.page
    assert (await operator.post("/channels/deliver", {"plan": "none"})).status_code == 404
