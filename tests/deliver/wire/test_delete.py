"""A person's record that is deleted (A29): inactive, or truly deleted where channel and server say so."""

import pytest

from engine.deliver.verdict import VerdictKind
from engine.fhir.plan import Plan, Upsert
from tests.deliver.conftest import AT

PERSON = {"name": [{"family": "Quintero", "given": ["Marisol"]}], "gender": "female", "birthDate": "1984-02-29"}


@pytest.fixture
async def deleting(site, server, identifier):
    """A destination of a channel that deletes, and one record."""
    server.add("a", identifier=[identifier("1")], **PERSON)
    site.open(deleted_person="delete")
    await site.destination.check()
    return site


async def test_a_server_that_deletes(deleting, server, patient):
    """One DELETE with the version that was read; sent again there is nothing to delete."""
    server.deletes = True
    verdict = await deleting.send(Upsert(patient("1"), inactivate=True))
    assert (verdict.kind, verdict.reason, server.effects) == (VerdictKind.DELIVERED, "deleted", ["delete a"])
    assert server.headers[-1]["If-Match"] == 'W/"1"'
    again = await deleting.send(Upsert(patient("1"), inactivate=True))
    assert (again.reason, again.attempts) == ("nothing-to-delete", ())


async def test_a_server_that_takes_the_chart_along(deleting, server, patient):
    """Where the statement says so, one DELETE takes all of it; to any other server no such thing is said."""
    server.deletes = server.cascades = True
    await deleting.destination.check()
    assert (await deleting.send(Upsert(patient("1"), inactivate=True))).reason == "deleted"
    assert server.requests[-1] == "DELETE Patient/a?_cascade=delete"


async def test_a_cascade_is_told_by_a_dry_run(deleting, server, patient):
    """The call with its parameter, and the record that would be gone."""
    server.deletes = server.cascades = True
    await deleting.destination.check()
    plan = Plan("A29", "ADT|RVB", AT, 14, (Upsert(patient("1"), inactivate=True),))
    told = await deleting.destination.dry_run(plan, deleting.memory, at=AT)
    assert [(call.method, call.path) for call in told.calls] == [("DELETE", "Patient/a?_cascade=delete")]
    assert {difference.resource for difference in told.differences} == {"Patient/a"}
    assert server.effects == []


async def test_who_comes_back_after_a_deletion_is_made_anew(deleting, server, patient):
    """What this feed deleted is not held as deleted by somebody else when the person is registered once more."""
    server.deletes = True
    await deleting.send(Upsert(patient("1")))
    await deleting.send(Upsert(patient("1"), inactivate=True))
    assert (await deleting.send(Upsert(patient("1"), reactivate=True))).reason == "created"
    assert server.patients["p1"]["identifier"][0]["value"] == "1"


async def test_a_server_that_does_not_delete(deleting, server, patient):
    """405: the record is inactive instead, and that is said; sent again nothing is asked a second time."""
    verdict = await deleting.send(Upsert(patient("1"), inactivate=True))
    assert (verdict.kind, verdict.reason) == (VerdictKind.DELIVERED, "updated")
    assert {"delete-refused", "inactivated"} <= set(verdict.notes)
    assert (server.patients["a"]["active"], server.effects) == (False, ["update a"])
    again = await deleting.send(Upsert(patient("1"), inactivate=True))
    assert (again.reason, again.attempts) == ("unchanged", ())


async def test_without_the_channels_word_nothing_is_deleted(site, server, identifier, patient):
    """The default is a record that is inactive, whatever the server would allow."""
    server.deletes = True
    server.add("a", identifier=[identifier("1")], **PERSON)
    assert (await site.open().send(Upsert(patient("1"), inactivate=True))).reason == "updated"
    assert (server.patients["a"]["active"], server.gone) == (False, set())
