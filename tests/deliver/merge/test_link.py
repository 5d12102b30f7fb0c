"""Links at a real HTTP server: both records know of each other or neither, and nothing is merged."""

import pytest

from engine.deliver.verdict import Failure, VerdictKind
from engine.fhir.plan import Upsert
from tests.deliver.fake_fhir import Step

PERSON = {"name": [{"family": "Quintero", "given": ["Marisol"]}], "gender": "female", "birthDate": "1984-02-29"}


@pytest.fixture
async def two(site, server, identifier):
    """A destination, and two records under the numbers 1 and 2."""
    server.add("a", identifier=[identifier("1")], **PERSON)
    server.add("b", identifier=[identifier("2")], **PERSON)
    site.open()
    await site.destination.check()
    return site


def seealso(server, logical_id):
    """The references of a record's `seealso` links."""
    links = server.patients[logical_id].get("link", [])
    return [link["other"]["reference"] for link in links if link["type"] == "seealso"]


async def test_both_records_say_so(two, server, linking):
    """One versioned write each, both read afterwards; the demographics are no part of it."""
    verdict = await two.send(linking("1", "2", family="Osei"))
    assert (verdict.kind, verdict.reason) == (VerdictKind.DELIVERED, "linked")
    assert (seealso(server, "a"), seealso(server, "b")) == (["Patient/b"], ["Patient/a"])
    assert server.patients["a"]["name"] == PERSON["name"]
    assert server.requests[-2:] == ["GET Patient/a", "GET Patient/b"]
    assert verdict.merges == ()


async def test_a_link_twice_is_one_link(two, server, linking):
    """The same link again, either way round, writes nothing."""
    await two.send(linking("1", "2"))
    assert (await two.send(linking("1", "2"))).reason == "already-linked"
    assert (await two.send(linking("2", "1"))).reason == "already-linked"
    assert server.effects == ["update a", "update b"]


async def test_unlink_takes_both_away_and_nothing_else(two, server, linking):
    """Other links stay; the element goes with its last item; a second unlink has nothing to do."""
    other = {"other": {"reference": "Patient/z"}, "type": "seealso"}
    server.touch("a", link=[other])
    await two.send(linking("1", "2"))
    assert (await two.send(linking("1", "2", undo=True))).reason == "unlinked"
    assert server.patients["a"]["link"] == [other]
    assert "link" not in server.patients["b"]
    assert (await two.send(linking("1", "2", undo=True))).reason == "nothing-to-unlink"


async def test_unlink_of_somebody_unknown_makes_nobody(two, server, linking):
    """Nothing is made in order to be parted."""
    verdict = await two.send(linking("1", "3", undo=True))
    assert (verdict.kind, verdict.reason, server.effects) == (VerdictKind.DELIVERED, "nothing-to-unlink", [])


async def test_an_unknown_side_is_made_first(two, server, linking):
    """The PID of the unknown side makes its record, a second one of the same demographics, and both are linked."""
    verdict = await two.send(linking("1", "3"))
    assert (verdict.reason, "possible-duplicate" in verdict.notes) == ("linked", True)
    assert server.effects == ["create p1", "update a", "update p1"]
    assert seealso(server, "p1") == ["Patient/a"]


async def test_an_unknown_side_of_too_little_is_held_before_anything_is_made(two, server, linking):
    """What the server requires and the PIDs lack is never made up, and no half is done."""
    thin = {"family": None, "given": None, "gender": None, "birthDate": None}
    verdict = await two.send(linking("3", "4", **thin))
    assert (verdict.kind, verdict.reason, server.effects) == (VerdictKind.HELD, "missing-required", [])


async def test_a_record_that_takes_the_number_by_demographics_is_linked(two, server, linking, identifier):
    """A record without any number that equals the PID is the unknown side, and gets its number."""
    server.patients.clear()
    server.add("a", identifier=[identifier("1")], **PERSON | {"birthDate": "1983-01-01"})
    server.add("c", **PERSON)
    verdict = await two.send(linking("1", "3"))
    assert (verdict.reason, "attached-by-demographics" in verdict.notes) == ("linked", True)
    assert [item["value"] for item in server.patients["c"]["identifier"]] == ["3"]


async def test_two_numbers_of_one_record_are_no_link(two, server, linking, identifier):
    """Both numbers in use on one record: rejected, as there is nobody to link it with."""
    server.touch("a", identifier=[identifier("1"), identifier("5")])
    verdict = await two.send(linking("1", "5"))
    assert (verdict.kind, verdict.reason) == (VerdictKind.REJECTED, "self-link")
    assert (await two.send(linking("1", "5", undo=True))).reason == "nothing-to-unlink"


async def test_what_was_merged_is_more_than_linked(two, server, linking, merging):
    """After a merge the two are one record: a late link has nothing to add."""
    await two.send(merging("1", "2"))
    assert (await two.send(linking("1", "2"))).reason == "already-linked"
    assert server.effects == ["merge a into b", "update b"]


async def test_a_merged_side_is_followed(two, server, linking, merging, identifier):
    """A link that names a merged number goes to the survivor."""
    server.add("c", identifier=[identifier("3")], **PERSON)
    await two.send(merging("1", "2"))
    verdict = await two.send(linking("1", "3"))
    assert (verdict.reason, "redirected-to-survivor" in verdict.notes) == ("linked", True)
    assert (seealso(server, "b"), seealso(server, "c")) == (["Patient/c"], ["Patient/b"])


async def test_a_half_link_is_finished(two, server, linking):
    """Broken off after the first write, the next attempt writes the second only."""
    server.script.append(Step("PUT", 503, path="Patient/b"))
    assert (await two.send(linking("1", "2"))).failure is Failure.TRANSIENT
    assert (await two.send(linking("1", "2"))).reason == "linked"
    assert server.effects == ["update a", "update b"]


async def test_a_server_that_drops_links_is_not_believed(two, server, linking):
    """200 to the write and no link afterwards: ambiguous, never delivered."""
    body = b'{"resourceType": "Patient", "id": "b", "meta": {"versionId": "2"}}'
    server.script.append(Step("PUT", 200, body=body, path="Patient/b"))
    verdict = await two.send(linking("1", "2"))
    assert (verdict.failure, verdict.reason) == (Failure.AMBIGUOUS, "link-unverified")


async def test_a_side_made_before_a_kill_is_owned_after_it(two, server, linking, patient):
    """A life that made the unknown side and died left no record of it; the next one still knows what is its own."""
    said = {"telecom": [{"value": "5"}]}
    await two.send(linking("1", "3", **said))
    two.memory = type(two.memory)()
    await two.close()
    two.open()
    verdict = await two.send(linking("1", "3", **said), ambiguous=True, attempts_made=2)
    assert verdict.reason == "already-linked"
    await two.send(Upsert(patient("3", telecom=[{"value": "6"}])))
    assert server.patients["p1"]["telecom"] == [{"value": "6"}]


@pytest.fixture
async def three(two, server, identifier, linking):
    """The records a and b, and c which is linked with a, both ways."""
    server.add("c", identifier=[identifier("3")], **PERSON)
    await two.send(linking("1", "3"))
    return two


async def test_a_merge_keeps_links_with_a_third_record_true(three, server, merging):
    """Whom the merged record was linked with, the survivor is; the two charts of a link stay two, and both know it."""
    assert (await three.send(merging("1", "2"))).reason == "merged"
    assert (seealso(server, "b"), seealso(server, "c")) == (["Patient/c"], ["Patient/b"])
    before = list(server.effects)
    assert (await three.send(merging("1", "2"))).reason == "already-merged"
    assert server.effects == before


async def test_a_merge_of_linked_records_ends_their_link(three, server, merging):
    """Two charts that were linked and are one now say nothing of each other but that the one replaces the other."""
    await three.send(merging("1", "3"))
    assert seealso(server, "c") == []
    assert [link["type"] for link in server.patients["c"]["link"]] == ["replaces"]


async def test_links_with_whom_both_sides_were_linked_come_once(three, server, linking, merging):
    """The third record was linked with both: it knows the survivor, once."""
    await three.send(linking("2", "3"))
    await three.send(merging("1", "2"))
    assert (seealso(server, "b"), seealso(server, "c")) == (["Patient/c"], ["Patient/b"])


async def test_an_unlink_after_a_merge_is_not_undone_by_the_merge_told_again(three, server, linking, merging):
    """The survivor and the third record are parted; the merge comes once more, and they stay apart."""
    await three.send(merging("1", "2"))
    assert (await three.send(linking("1", "3", undo=True))).reason == "unlinked"
    assert (await three.send(merging("1", "2"))).reason == "already-merged"
    assert (seealso(server, "b"), seealso(server, "c")) == ([], [])


async def test_links_are_carried_after_a_merge_that_was_cut_off(three, server, merging):
    """The merge was made and the rest was not: the next try finds it done and lets the links follow."""
    server.script.append(Step("PUT", 503, path="Patient/b"))
    assert (await three.send(merging("1", "2"))).failure is Failure.TRANSIENT
    assert (await three.send(merging("1", "2"), attempts_made=3, ambiguous=True)).reason == "already-merged"
    assert (seealso(server, "b"), seealso(server, "c")) == (["Patient/c"], ["Patient/b"])
