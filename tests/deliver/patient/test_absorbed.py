"""A record that took over many others: every old number leads to it, from memory and by the records' own links."""

import pytest

from engine.deliver.verdict import VerdictKind
from engine.fhir.plan import Upsert
from tests.deliver.conftest import MRN

PERSON = {"name": [{"family": "Quintero", "given": ["Marisol"]}], "gender": "female", "birthDate": "1984-02-29"}
MANY = 12


async def opened(site, **settings):
    """A destination that has read the server's CapabilityStatement."""
    site.open(**settings)
    await site.destination.check()
    return site


@pytest.fixture(params=["star", "chain"])
async def absorbed(request, site, server, identifier, merging):
    """Thirteen records of one person made one through the engine: twelve into the last, or each into the next."""
    for number in range(MANY + 1):
        server.add(f"r{number}", identifier=[identifier(str(number))], **PERSON)
    await opened(site)
    for number in range(MANY):
        to = MANY if request.param == "star" else number + 1
        assert (await site.send(merging(str(number), str(to)))).reason == "merged"
    return site


@pytest.mark.parametrize("forgets", ["nothing", "cache", "journal"])
@pytest.mark.parametrize("shows", ["survivor", "tombstone"])
async def test_each_of_many_old_numbers_leads_to_the_survivor(absorbed, server, patient, forgets, shows):
    """Whatever was forgotten, and whether a search answers with survivor or tombstone; none comes into use again."""
    borne = server.patients[f"r{MANY}"]["identifier"]
    server.survivor_for_old_numbers = shows == "survivor"
    if forgets != "nothing":
        await absorbed.close()
        await opened(absorbed)
    for number in range(MANY):
        if forgets == "journal":
            absorbed.memory = type(absorbed.memory)()
        verdict = await absorbed.send(Upsert(patient(str(number), telecom=[{"value": str(number)}])))
        assert (verdict.kind, verdict.reason) == (VerdictKind.DELIVERED, "updated"), (number, verdict.reason)
        assert "redirected-to-survivor" in verdict.notes
    both = await absorbed.send(Upsert(patient(str(MANY), "9", "10", telecom=[{"value": "both"}])))
    assert (both.reason, server.patients[f"r{MANY}"]["telecom"][-1]) == ("updated", {"value": "both"})
    assert server.patients[f"r{MANY}"]["identifier"] == borne
    assert [item["value"] for item in borne if item.get("use") != "old"] == [str(MANY)]


async def test_what_the_journal_knows_costs_two_requests(absorbed, server, patient):
    """An old number that was merged on twelve times: a search, a look at its own record, and the update."""
    await absorbed.close()
    await opened(absorbed)
    del server.requests[:]
    assert (await absorbed.send(Upsert(patient("0", telecom=[{"value": "7"}])))).reason == "updated"
    assert [line.partition("?")[0] for line in server.requests] == [
        "GET Patient",
        "GET Patient/r0",
        f"PUT Patient/r{MANY}",
    ]


async def test_a_merge_of_long_ago_is_known_again(absorbed, server, merging):
    """The first merge sent again, and its inverse, after eleven others: done already, and a cycle."""
    done = [effect for effect in server.effects if effect.startswith("merge")]
    assert (await absorbed.send(merging("0", str(MANY)))).reason == "already-merged"
    assert (await absorbed.send(merging(str(MANY), "0"))).reason == "merge-cycle"
    assert [effect for effect in server.effects if effect.startswith("merge")] == done
    assert {"value": "0", "use": "old"}.items() <= next(
        one for one in server.patients[f"r{MANY}"]["identifier"] if one["value"] == "0"
    ).items()


async def test_tombstones_that_the_server_removed_are_not_needed(absorbed, server, patient):
    """Where nothing but the journal tells of the merges, the server's answer is proven by it."""
    server._search = lambda _query: [server.patients[f"r{MANY}"]]
    for number in range(MANY):
        del server.patients[f"r{number}"]
    server.touch(f"r{MANY}", link=[])
    await absorbed.close()
    await opened(absorbed)
    assert (await absorbed.send(Upsert(patient("0", telecom=[{"value": "7"}])))).reason == "updated"


async def test_merges_that_run_in_a_circle_end(site, server, identifier, patient):
    """Links in a circle are held, and what the journal tells in a circle is read from the records instead."""
    server.survivor_for_old_numbers = False
    for number in range(MANY):
        link = {"other": {"reference": f"Patient/r{(number + 1) % MANY}"}, "type": "replaced-by"}
        server.add(f"r{number}", identifier=[identifier(str(number))], link=[link], **PERSON)
    await opened(site)
    assert (await site.send(Upsert(patient("0", telecom=[{"value": "7"}])))).reason == "merge-loop"


async def test_more_records_than_are_looked_through_are_held(site, server, identifier, patient):
    """A survivor of seventy, and no journal: a number that none of the first ones had is added to nobody."""
    heads = [{"other": {"reference": f"Patient/r{number}"}, "type": "replaces"} for number in range(70)]
    for number in range(70):
        back = {"other": {"reference": "Patient/s"}, "type": "replaced-by"}
        server.add(f"r{number}", identifier=[identifier(str(number))], link=[back], **PERSON)
    server.add("s", identifier=[identifier("S")], link=heads, **PERSON)
    await opened(site)
    verdict = await site.send(Upsert(patient("S", "69", telecom=[{"value": "7"}])))
    assert (verdict.kind, verdict.reason, server.effects) == (VerdictKind.HELD, "identity-unproven", [])
    assert MRN in server.patients["s"]["identifier"][0]["system"]
