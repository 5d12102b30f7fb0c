"""What a CapabilityStatement promises, and what its absence means."""

import asyncio

import pytest

from engine.deliver.wire.abilities import abilities_of
from engine.fhir.plan import Upsert
from tests.deliver.conftest import MRN
from tests.deliver.fake_fhir import Step


async def test_check_reads_the_statement(site, server):
    """The statement's merge and conditional create are believed; of If-Match it says nothing that is certain."""
    abilities = await site.open().destination.check()
    assert (abilities.operation, abilities.provable, abilities.conditional_create) == ("merge", True, True)
    assert not abilities.if_match
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


@pytest.mark.parametrize("versioning", ["versioned", "versioned-update"])
async def test_if_match_is_proven_whatever_the_statement_says(site, server, patient, versioning):
    """A server that keeps versions is tried once, with what it holds; then updates start from the cache."""
    server.versioning = versioning
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


async def test_a_record_of_another_system_is_not_tried_on(site, server, patient):
    """Nothing is written to a record but what a message says, before this feed has written of it once."""
    server.add("p7", identifier=[{"system": MRN, "value": "7"}], name=[{"family": "Quintero", "given": ["Marisol"]}])
    await site.open().destination.check()
    assert [attempt.status for attempt in (await site.send(Upsert(patient("7")))).attempts] == [200]
    assert site.destination.abilities.provable


async def test_nothing_is_said_of_if_match_while_it_is_tried(site, server, patient):
    """Until the trial is answered, the server lacks nothing: others deliver meanwhile, and would say that it does."""
    await site.open().destination.check()
    await site.send(Upsert(patient("1")))
    seen = []
    server.before = lambda method, _path: seen.append((method, site.destination.missing()))
    assert "if-match-proven" in (await site.send(Upsert(patient("1", gender="male")))).notes
    assert seen[-2:] == [("PUT", ()), ("PUT", ())]


async def test_two_do_not_try_at_once(site, server, patient):
    """What is updated while the trial is on its way is not tried on too."""
    await site.open().destination.check()
    for number in ("1", "2"):
        await site.send(Upsert(patient(number)))
    both = await asyncio.gather(*(site.send(Upsert(patient(number, gender="male"))) for number in ("1", "2")))
    assert sorted(attempt.status for verdict in both for attempt in verdict.attempts) == [200, 200, 412]


async def test_a_trial_without_an_answer_forgets_nothing_else(site, server, patient):
    """What was found of the server while the trial was on its way stays; the trial is made again."""
    await site.open().destination.check()
    await site.send(Upsert(patient("1")))
    server.before = lambda _method, _path: site.destination._server.refrain("transactions-fail")
    server.script.append(Step("PUT", status=503))
    await site.send(Upsert(patient("1", gender="male")))
    assert (site.destination.missing(), site.destination.abilities.provable) == (("transactions-fail",), True)


async def test_a_server_is_tried_once_per_version(site, server, patient):
    """What was found is told to be kept, and taken up again; another version of the server is tried anew."""
    server.software = {"name": "HAPI FHIR Server", "version": "8.8.0"}
    server.honours_if_match = False
    await site.open().destination.check()
    await site.send(Upsert(patient("1")))
    tried = await site.send(Upsert(patient("1", gender="male")))
    assert "if-match-ignored" in tried.notes
    assert site.destination.proofs.take_new() == [("HAPI FHIR Server 8.8.0", False)]
    assert site.destination.proofs.take_new() == []
    await site.close()
    site.open().destination.proofs.known["HAPI FHIR Server 8.8.0"] = False
    assert "no-if-match" in (await site.destination.check()).missing()
    server.software = {"name": "HAPI FHIR Server", "version": "8.9.0"}
    assert (await site.destination.check()).provable


@pytest.mark.parametrize(
    ("listed", "settings", "path", "kind"),
    [
        (["hapi.fhir.merge"], {}, "Patient/$hapi.fhir.merge", "resource"),
        (["hapi.fhir.merge", "hapi.fhir.undo-merge", "merge"], {}, "Patient/$merge", "patient"),
        (["hapi.fhir.undo-merge"], {"merge_operation": "$hapi.fhir.merge"}, "Patient/$hapi.fhir.merge", "resource"),
        (["merge"], {"merge_operation": "site.merge"}, "Patient/$site.merge", "patient"),
    ],
)
async def test_a_merge_is_called_as_the_server_lists_it_or_as_the_site_says(
    site, server, patient, merging, listed, settings, path, kind
):
    """HAPI lists `hapi.fhir.merge`; the standard's own name is preferred, and the site's before all.

    HAPI's own takes resources of any type, and its parameters are called so.
    """
    server.operations, server.merge_paths = listed, {path}
    server.merge_sides = (f"source-{kind}", f"target-{kind}")
    await site.open(**settings).destination.check()
    await site.send(Upsert(patient("1", birthDate="1984-02-29")))
    await site.send(Upsert(patient("2", birthDate="1984-02-29")))
    assert (await site.send(merging("2", "1"))).reason == "merged"
    assert {request for request in server.requests if "$" in request} == {f"POST {path}"}


def test_a_name_that_is_no_operation_is_refused(site):
    """Nothing else than a name goes into the address."""
    with pytest.raises(ValueError, match="operation's name"):
        site.open(merge_operation="merge?x=1")


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


def test_notices_are_taken_where_the_operation_stands_at_the_system_level():
    """`$process-message` is an operation of the server; one of a type is another matter."""
    rest = {"mode": "server", "operation": [{"name": "process-message"}]}
    assert abilities_of({"resourceType": "CapabilityStatement", "rest": [rest]}).notices
    rest = {"mode": "server", "resource": [{"type": "Bundle", "operation": [{"name": "process-message"}]}]}
    assert not abilities_of({"resourceType": "CapabilityStatement", "rest": [rest]}).notices
