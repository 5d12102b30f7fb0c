"""Possible duplicates: who is open, a pair side by side, and a decision that stays on record with who and when."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from engine.ops.sender.line import send_messages
from tests.ops.web.conftest import Site, alike
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
    assert '<td class="differs"><b class="mark">≠</b><span class="visually-hidden"> differs: </span>' in operator.page
    (there,) = (await site.act("duplicates.show", entry=MADE))["destinations"]
    lines = {line["what"]: line for line in there["lines"]}
    assert (lines["Numbers"]["mine"], lines["Numbers"]["theirs"]) == ("RB-61", ["RB-60"])
    assert lines["Address"]["theirs"] == ["1 Elm Terrace, 97301 Keswick"]
    differing = {what for what, line in lines.items() if line["differs"] == [True]}
    assert differing >= {"Address", "Numbers"}
    assert not differing & {"Name", "Born", "Gender", "State"}


async def test_the_list_has_a_row_a_pair_with_both_patients(site: Site) -> None:
    """Names, numbers and birth dates on both sides for who may see them, else both records; each look is on record."""
    operator = await site.person("operator")
    await operator.get("/duplicates?show=all")
    row = _row(operator.page, MADE)
    assert row.count("Holloway, Imogen") == 2
    assert row.count("born 1984-02-29") == 2
    assert ("RB-60" in row, "RB-61" in row) == (True, True)
    for number in ("RB-60", "RB-61"):
        rows = await site.act("audit.list", patient=number, limit=100)
        assert "messages.named" in {one["act"] for one in rows if one["actor"] == "operator"}, number
    viewer = await site.person("viewer")
    await viewer.get("/duplicates?show=all")
    (place,) = next(one for one in await _all(site) if one["entry"] == MADE)["places"]
    for record in (place["this"], place["that"]):
        assert f"Patient/{record}" in viewer.page
    assert "Holloway" not in viewer.page


async def test_a_record_of_another_program_is_named_by_the_destination(site: Site) -> None:
    """No message names it: name, number and birth date are read there, on record; not from one that is silent."""
    record = await alike(site, "RB-990")
    rows = len(site.rig.rows())
    await send_messages(
        *await site.rig.address(), [event("A28^ADT_A05", "D9", "RB-99", "190000", name="Alike^Marisol")]
    )
    await site.rig.until(lambda found: [row.state for row in found[rows:]] == ["delivered"])
    operator = await site.person("operator")
    await operator.get("/duplicates")
    row = _row(operator.page, rows + 1)
    assert row.count("Alike, Marisol") == 2
    assert "RB-990" in row
    assert "born 1984-02-29, known at interchange only" in row
    assert "duplicates.records" in {one["act"] for one in await site.act("audit.list", limit=200)}
    await site.rig.service.kill()
    try:
        await operator.get("/duplicates")
    finally:
        await site.rig.service.start()
    assert f"Patient/{record}" in _row(operator.page, rows + 1)


async def test_new_pairs_are_counted_in_the_menu_and_on_the_page(site: Site) -> None:
    """The count is of open ones; a decision is counted at once."""
    operator = await site.person("operator")
    rows = len(site.rig.rows())
    twice = [event("A28^ADT_A05", f"D{n}", f"RB-{n}", "180000", name="Merriweather^Ada") for n in (68, 69)]
    await send_messages(*await site.rig.address(), twice)
    await site.rig.until(lambda found: [row.state for row in found[rows:]] == ["delivered"] * 2)
    count = (await site.act("duplicates.count"))["count"]
    assert count >= 1
    # A decision makes the menu count anew.
    await operator.get("/duplicates")
    await operator.post(f"/duplicates/{rows + 2}", {"decision": "sent", "pair": 1})
    await operator.get("/duplicates")
    assert f'id="count-duplicates"{" hidden" if count == 1 else ""}>{count - 1}</span>' in operator.page
    assert f"<b>{count - 1}</b> new pair" in operator.page


async def test_each_pair_of_a_message_is_decided_by_itself(site: Site) -> None:
    """A third registration has two pairs, each with a row, a page and a decision; one without a number is of both."""
    third = event("A28^ADT_A05", "D7", "RB-67", "170000", name="Holloway^Imogen")
    rows = len(site.rig.rows())
    await send_messages(*await site.rig.address(), [third])
    await site.rig.until(lambda found: [row.state for row in found[rows:]] == ["delivered"])
    entry = rows + 1
    pairs = [one for one in await _all(site) if one["entry"] == entry]
    assert [(one["number"], one["this"]) for one in pairs] == [(1, entry), (2, entry)]
    assert {one["that"] for one in pairs} == {MADE - 1, MADE}
    operator = await site.person("operator")
    await operator.get(f"/duplicates/{entry}?pair=2")
    assert f"Message {entry} noted 2 pairs" in operator.page
    answer = await operator.post(f"/duplicates/{entry}", {"decision": "sent", "pair": "2"})
    assert answer.headers["location"] == f"/duplicates/{entry}?pair=2&said=decided"
    assert await _statuses(site, entry) == ["open", "sent"]
    await site.act("duplicates.decide", entry=entry, decision="different")
    assert await _statuses(site, entry) == ["closed", "closed"]
    assert "has no pair 3" in str(await site.rig.ask("duplicates.show", entry=entry, number=3))


async def _all(site: Site) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await site.act("duplicates.list", show="all"))["pairs"]
    return found


async def _statuses(site: Site, entry: int) -> list[str]:
    return [one["status"] for one in await _all(site) if one["entry"] == entry]


def _row(page: str, entry: int) -> str:
    return next(row for row in page.split("<tr>") if f'href="/duplicates/{entry}"' in row)


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
    before = {one["entry"]: one["decision"] for one in (await site.act("duplicates.list", show="all"))["pairs"]}
    for entry, decision in ((MADE, "burn"), (3, "same"), (999, "same")):
        assert "error" in await site.rig.ask("duplicates.decide", entry=entry, decision=decision), entry
    viewer = await site.person("viewer")
    assert (await viewer.get(f"/duplicates/{MADE}")).status_code == 403
    await viewer.get("/duplicates?show=all")
    assert "Holloway" not in viewer.page
    assert f"/messages/{MADE}" in viewer.page
    assert (await viewer.post(f"/duplicates/{MADE}", {"decision": "different"})).status_code == 403
    after = {one["entry"]: one["decision"] for one in (await site.act("duplicates.list", show="all"))["pairs"]}
    assert after == before


async def test_pages_of_duplicates_leave_none_out(site: Site) -> None:
    """One a page gives the same as all at once, and the last page names no next one."""
    whole = [one["entry"] for one in (await site.act("duplicates.list", show="all"))["pairs"]]
    assert MADE in whole
    seen, before = [], 0
    while True:
        page = await site.act("duplicates.list", show="all", limit=1, before=before)
        seen += [one["entry"] for one in page["pairs"]]
        if page["before"] is None:
            break
        before = page["before"]
    assert seen == whole


async def test_a_pair_that_was_merged_since_is_closed_by_the_merge(site: Site) -> None:
    """Nobody decided: the list and the page name the message of the merge, and it is open no more."""
    twice = [event("A28^ADT_A05", f"D{n}", f"RB-{n}", "180000", name="Castellan^Ines") for n in (62, 63)]
    merge = event("A40^ADT_A39", "D64", "RB-62", "190000", "MRG|RB-63^^^RVB^MR\r", name="Castellan^Ines")
    rows = len(site.rig.rows())
    await send_messages(*await site.rig.address(), [*twice, merge])
    await site.rig.until(lambda found: [row.state for row in found[rows:]] == ["delivered"] * 3)
    operator = await site.person("operator")
    second = rows + 2
    for show, listed in (("open", False), ("closed", True)):
        await operator.get(f"/duplicates?show={show}")
        assert (f'href="/duplicates/{second}"' in operator.page) is listed, show
    assert f'href="/messages/{second + 1}"' in operator.page
    await operator.get(f"/duplicates/{second}")
    assert "<b>Merged</b>" in operator.page
    assert f'href="/messages/{second + 1}"' in operator.page
