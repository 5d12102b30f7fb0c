"""Possible duplicates: who is open, a pair side by side, and a decision that stays on record with who and when."""

from collections.abc import AsyncIterator

import pytest

from engine.ops.sender.line import send_messages
from tests.ops.web.conftest import Site
from tests.ops.web.story import event, night

MADE = 10


@pytest.fixture(scope="module")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    """An engine at which one person was registered twice, at two addresses."""
    async with night(tmp_path_factory.mktemp("duplicates")) as made:
        first = event("A28^ADT_A05", "D1", "RB-60", "160000", name="Holloway^Imogen")
        again = event("A28^ADT_A05", "D2", "RB-61", "160100", name="Holloway^Imogen").replace(b"Keswick", b"Linden")
        await send_messages(*await made.rig.address(), [first, again])
        await made.rig.until(lambda rows: [row.state for row in rows[8:]] == ["delivered"] * 2)
        yield made


async def test_a_pair_stands_side_by_side_with_its_differences_marked(site: Site) -> None:
    """Both records as they are now; the address and the number differ, name and birth date do not."""
    operator = await site.person("operator")
    await operator.get("/duplicates?show=all")
    assert f'href="/duplicates/{MADE}"' in operator.page
    assert "Holloway, Imogen" in operator.page
    answer = await operator.get(f"/duplicates/{MADE}")
    assert answer.status_code == 200
    assert operator.page.count("Holloway, Imogen") >= 3
    (there,) = (await site.act("duplicates.show", entry=MADE))["destinations"]
    lines = {line["what"]: line for line in there["lines"]}
    assert (lines["Numbers"]["mine"], lines["Numbers"]["theirs"]) == ("RB-61", ["RB-60"])
    assert lines["Address"]["theirs"] == ["1 Elm Terrace, 97301 Keswick"]
    differing = {what for what, line in lines.items() if line["differs"] == [True]}
    assert differing >= {"Address", "Numbers"}
    assert not differing & {"Name", "Born", "Gender", "State"}


async def test_a_decision_is_kept_with_who_and_when_and_leaves_the_open_ones(site: Site) -> None:
    """Sent to the MPI team, then the same person: each is the newest decision, in its list, and in the trail."""
    operator = await site.person("operator")
    for choice, word, lists in (
        ("sent", "Sent to the MPI team", ("sent", "all")),
        ("same", "The same person", ("closed", "all")),
    ):
        await operator.get(f"/duplicates/{MADE}")
        answer = await operator.post(f"/duplicates/{MADE}", {"decision": choice, "reason": "ticket 12"})
        assert answer.headers["location"].startswith(f"/duplicates/{MADE}")
        for show in ("open", "sent", "closed", "all"):
            await operator.get(f"/duplicates?show={show}")
            assert (f'href="/duplicates/{MADE}"' in operator.page) is (show in lists), (choice, show)
        assert word in operator.page
    rows = await site.act("audit.list", entry=MADE, limit=100)
    row = next(one for one in rows if one["act"] == "duplicates.decide")
    assert (row["actor"], row["entry"], row["reason"]) == ("operator", MADE, "ticket 12")
    await operator.get(f"/duplicates/{MADE}")
    assert "decided by <bdi>operator</bdi>" in operator.page


async def test_what_was_refused_is_no_decision(site: Site) -> None:
    """A word that is none, an entry that made no duplicate, and a viewer's form leave nothing but a refusal."""
    before = {one["entry"]: one["decision"] for one in (await site.act("duplicates.list", show="all"))["entries"]}
    for entry, decision in ((MADE, "burn"), (3, "same"), (999, "same")):
        assert "error" in await site.rig.ask("duplicates.decide", entry=entry, decision=decision), entry
    viewer = await site.person("viewer")
    assert (await viewer.get(f"/duplicates/{MADE}")).status_code == 403
    await viewer.get("/duplicates?show=all")
    assert "Holloway" not in viewer.page
    assert f"/messages/{MADE}" in viewer.page
    assert (await viewer.post(f"/duplicates/{MADE}", {"decision": "different"})).status_code == 403
    after = {one["entry"]: one["decision"] for one in (await site.act("duplicates.list", show="all"))["entries"]}
    assert after == before


async def test_pages_of_duplicates_leave_none_out(site: Site) -> None:
    """One a page gives the same as all at once, and the last page names no next one."""
    whole = [one["entry"] for one in (await site.act("duplicates.list", show="all"))["entries"]]
    assert MADE in whole
    seen, before = [], 0
    while True:
        page = await site.act("duplicates.list", show="all", limit=1, before=before)
        seen += [one["entry"] for one in page["entries"]]
        if page["before"] is None:
            break
        before = page["before"]
    assert seen == whole


async def test_a_pair_that_was_merged_since_is_closed_by_the_merge(site: Site) -> None:
    """Nobody decided: the list and the page name the message of the merge, and it is open no more."""
    twice = [event("A28^ADT_A05", f"D{n}", f"RB-{n}", "180000", name="Castellan^Ines") for n in (62, 63)]
    merge = event("A40^ADT_A39", "D64", "RB-62", "190000", "MRG|RB-63^^^RVB^MR\r", name="Castellan^Ines")
    await send_messages(*await site.rig.address(), [*twice, merge])
    await site.rig.until(lambda rows: [row.state for row in rows[10:]] == ["delivered"] * 3)
    operator = await site.person("operator")
    for show, listed in (("open", False), ("closed", True)):
        await operator.get(f"/duplicates?show={show}")
        assert ('href="/duplicates/12"' in operator.page) is listed, show
    assert 'href="/messages/13"' in operator.page
    await operator.get("/duplicates/12")
    assert "Settled by a merge" in operator.page
    assert 'href="/messages/13"' in operator.page
