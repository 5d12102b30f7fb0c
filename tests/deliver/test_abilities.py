"""What a CapabilityStatement promises, and what its absence means."""

import pytest

from engine.deliver.abilities import abilities_of
from engine.fhir.plan import Upsert


async def test_check_reads_the_statement(site, server):
    """The statement's merge, versioning and conditional create are believed."""
    abilities = await site.open().destination.check()
    assert (abilities.merge, abilities.if_match, abilities.conditional_create) == (True, True, True)
    assert abilities.missing() == ()


async def test_server_without_versions_is_read_each_time(site, server, patient):
    """Where If-Match is not honoured nothing starts from the cache."""
    server.versioning = "no-version"
    await site.open().destination.check()
    assert "no-if-match" in site.destination.abilities.missing()
    await site.send(Upsert(patient("1")))
    before = len(server.requests)
    await site.send(Upsert(patient("1", gender="male")))
    assert server.requests[before] == "GET Patient/p1"


async def test_if_match_is_proven_where_the_statement_leaves_it_open(site, server, patient):
    """A server that keeps versions is tried once, with what it holds; then updates start from the cache."""
    server.versioning = "versioned"
    await site.open().destination.check()
    await site.send(Upsert(patient("1")))
    proving = await site.send(Upsert(patient("1", gender="male")))
    assert [attempt.status for attempt in proving.attempts] == [412, 200]
    before = len(server.requests)
    await site.send(Upsert(patient("1", gender="female")))
    assert server.requests[before:] == ["PUT Patient/p1"]


async def test_server_that_ignores_if_match_is_found_out(site, server, patient):
    """A server that takes a stale version has lost nothing by the trial, and is read before each update."""
    server.versioning, server.honours_if_match = "versioned", False
    await site.open().destination.check()
    await site.send(Upsert(patient("1")))
    assert (await site.send(Upsert(patient("1", gender="male")))).reason == "updated"
    assert server.patients["p1"]["gender"] == "male"
    assert site.destination.abilities.missing() == ("no-if-match",)


@pytest.mark.parametrize("statement", [None, [], {"resourceType": "Patient"}, {"resourceType": "CapabilityStatement"}])
def test_nothing_is_relied_on_without_a_word(statement):
    """Where nothing is said, nothing is relied on."""
    abilities = abilities_of(statement)
    assert not abilities.merge
    assert not abilities.if_match


def test_merge_of_another_type_is_not_ours():
    """A `merge` operation at the system level is Patient's only where its definition says so."""
    rest = {"mode": "server", "operation": [{"name": "merge", "definition": "http://x/DocumentReference-merge"}]}
    assert not abilities_of({"resourceType": "CapabilityStatement", "rest": [rest]}).merge
    rest["operation"][0]["definition"] = "http://hl7.org/fhir/OperationDefinition/Patient-merge"
    assert abilities_of({"resourceType": "CapabilityStatement", "rest": [rest]}).merge
