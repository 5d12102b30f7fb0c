"""Rehearsals: what a delivery would do is told as it would be done, and nothing of it is done."""

import re
from typing import Any

import orjson
import pytest

from engine.config.settings import shipped
from engine.deliver.verdict import VerdictKind
from engine.deliver.wire.dry_run import MOST_READS, DryRunServer, differences
from engine.deliver.wire.revise import NEVER_A_VERSION
from engine.errors import PermanentDeliveryError
from engine.fhir.plan import Plan, Upsert
from engine.hl7.message import parse
from engine.mapping.authoring.case import channel_of
from engine.mapping.compile import compile_mapping, read
from tests.deliver.conftest import AT, MRN
from tests.deliver.fake_fhir import Step

PERSON = {"name": [{"family": "Quintero", "given": ["Marisol"]}], "gender": "female", "birthDate": "1984-02-29"}
MAPPING = compile_mapping(read([shipped("mappings")], "adt"), channel_of({"authorities": {"RVB": MRN}}))


async def rehearsed(site, *interactions):
    """Rehearse interactions at the test's destination."""
    return await site.destination.dry_run(Plan("A08", "ADT|RVB", AT, 14, interactions), site.memory, at=AT)


def writes(server) -> list[str]:
    """Return the requests that reached the server and were no reads."""
    return [request for request in server.requests if not request.startswith("GET ")]


async def test_a_create_is_told_and_not_sent(site, server, patient):
    """The call, its condition and every element of the new record are there; the server has seen reads only."""
    site.open()
    told = await rehearsed(site, Upsert(patient("1")))
    assert (told.verdict.kind, told.verdict.reason) == (VerdictKind.DELIVERED, "created")
    (call,) = told.calls
    assert (call.method, call.path, call.changes) == ("POST", "Patient", True)
    assert dict(call.headers)["If-None-Exist"].startswith("given=Marisol")
    assert {one.path: one.before for one in told.differences}.items() >= {"name": None, "birthDate": None}.items()
    assert {difference.resource for difference in told.differences} == {"Patient/new-1"}
    assert "not-yet-searchable" not in told.verdict.notes
    assert (writes(server), server.patients, site.intents) == ([], {}, [])


async def test_an_update_is_told_element_by_element(site, server, patient, identifier):
    """What changes stands with what was there before, by its place in the list."""
    phones = [{"value": "1"}, {"value": "2"}]
    server.add("a", identifier=[identifier("1")], telecom=phones, **PERSON)
    site.open()
    told = await rehearsed(site, Upsert(patient("1", gender="male", telecom=[{"value": "3"}])))
    assert [(call.method, call.path) for call in told.calls] == [("PUT", "Patient/a")]
    assert {(difference.path, difference.before, str(difference.after)) for difference in told.differences} == {
        ("gender", "female", "male"),
        ("telecom[2]", None, "{'value': '3'}"),
    }
    assert (writes(server), server.effects) == ([], [])


async def test_what_is_true_already_needs_nothing(site, server, patient, identifier):
    """No call, no difference, and the verdict says so."""
    server.add("a", identifier=[identifier("1")], **PERSON)
    site.open()
    told = await rehearsed(site, Upsert(patient("1")))
    assert (told.verdict.reason, told.calls, told.differences) == ("unchanged", (), ())


async def test_a_merge_is_told_with_both_records(site, server, merging, identifier):
    """The preview is called one, the source is replaced by the survivor, and neither has changed at the server."""
    server.add("a", identifier=[identifier("1")], **PERSON)
    server.add("b", identifier=[identifier("2")], **PERSON)
    site.open()
    told = await rehearsed(site, merging("1", "2"))
    assert told.verdict.reason == "merged"
    assert [(call.path, call.changes) for call in told.calls] == [
        ("Patient/$merge", False),
        ("Patient/$merge", True),
        ("Patient/b", True),
    ]
    assert {(difference.resource, difference.path) for difference in told.differences} == {
        ("Patient/a", "active"), ("Patient/a", "link"), ("Patient/b", "link"), ("Patient/b", "identifier[1]")
    }  # fmt: skip
    assert (writes(server), server.effects) == ([], [])


async def test_a_hold_is_told_with_its_reason(site, server, patient, identifier):
    """Two records with one number: the verdict is the one that a delivery would have."""
    server.unique_mrn = False
    server.add("a", identifier=[identifier("1")], **PERSON)
    server.add("b", identifier=[identifier("1")], **PERSON)
    told = await rehearsed(site.open(), Upsert(patient("1")))
    assert (told.verdict.kind, told.verdict.reason) == (VerdictKind.HELD, "ambiguous-identity")


async def test_a_server_that_does_not_answer_is_told(site, server, patient):
    """A read that fails gives the verdict of a delivery, and nothing is journaled of it."""
    server.script.append(Step("GET", 503))
    told = await rehearsed(site.open(), Upsert(patient("1")))
    assert (told.verdict.kind, told.verdict.attempts, site.intents) == (VerdictKind.RETRY, (), [])


async def test_a_rehearsal_leaves_caches_and_abilities_alone(site, server, patient, identifier):
    """The next delivery starts as if there had been none: it reads, proves If-Match, and updates what is there."""
    server.versioning = "versioned"
    server.add("a", identifier=[identifier("1")], **PERSON)
    site.open()
    await site.destination.check()
    before = site.destination.abilities
    cache = site.destination._server.cache
    told = await rehearsed(site, Upsert(patient("1", gender="male")))
    assert (site.destination.abilities, len(cache)) == (before, 0)
    assert [call.method for call in told.calls] == ["PUT"]
    for gender in ("unknown", "other"):  # the first makes it a record on which If-Match may be tried
        assert (await site.send(Upsert(patient("1", gender=gender)))).reason == "updated"
    cached = len(cache)
    again = await rehearsed(site, Upsert(patient("1", gender="male")))
    assert [(difference.before, difference.after) for difference in again.differences] == [("other", "male")]
    assert len(cache) == cached
    (kept,) = (one.patient for one in cache._whole.values())
    assert kept.body["gender"] == "other"


async def test_a_rehearsal_is_bounded(site, server):
    """Past so many reads it gives up."""
    server_of_run = DryRunServer(site.open().destination._server)
    for index in range(MOST_READS):
        await server_of_run.ask("GET", f"{server.base}/Patient/{index}", ())
    with pytest.raises(PermanentDeliveryError, match="rehearsal-too-long"):
        await server_of_run.ask("GET", f"{server.base}/Patient/x", ())


def test_differences_of_lists_go_by_their_items() -> None:
    """An item that moved is none; one that changed is compared within."""
    old = {"name": [{"family": "A"}, {"family": "B", "use": "old"}], "active": True}
    new = {"name": [{"family": "B", "use": "old"}, {"family": "C"}], "active": True}
    assert [(one.path, one.before, one.after) for one in differences("Patient/1", old, new)] == [
        ("name[1].family", "A", "C")
    ]
    turned = {"name": old["name"][::-1], "active": True}
    assert [difference.path for difference in differences("Patient/1", old, turned)] == ["name"]


STAY = (
    ("A28", "PID|1||{0}^^^RVB^MR||{0}^Amara||19600102|F", ""),
    ("A28", "PID|1||{0}2^^^RVB^MR||{0}^Amara|Bell|19600102|F", ""),
    ("A01", "PID|1||{0}^^^RVB^MR||{0}^Amara||19600102|F|||1 Elm^^Salem^OR", "PV1|1|I|3W^312^A^RVB||||1187^Osei^Ada"),
    ("A02", "PID|1||{0}^^^RVB^MR||{0}^Amara||19600102|F", "PV1|1|I|4W^401^A^RVB|||3W^312^A^RVB|1187^Osei^Ada"),
    ("A08", "PID|1||{0}^^^RVB^MR||{0}^Amara||19600102|M", "PV1|1|I|4W^401^A^RVB||||1188^Roe^Jan"),
    ("A47", "PID|1||{0}3^^^RVB^MR||{0}^Amara||19600102|M\rMRG|{0}^^^RVB^MR", ""),
    ("A24", "PID|1||{0}3^^^RVB^MR||{0}^Amara\rPID|2||{0}2^^^RVB^MR||{0}^Amara", ""),
    ("A40", "PID|1||{0}2^^^RVB^MR||{0}^Amara\rMRG|{0}3^^^RVB^MR", ""),
    ("A08", "PID|1||{0}3^^^RVB^MR||{0}^Amara||19600102|M|||2 Oak^^Salem^OR", ""),
)


def numbered(pv1: str, name: str) -> str:
    """Return a PV1 with a visit number of the test's own."""
    return f"{pv1}{'|' * (19 - pv1.count('|'))}{name}V^^^RVB" if pv1 else ""


def plain(calls: list[tuple[str, str, Any]], made: str) -> list[tuple[str, str, Any]]:
    """Return calls without what a new resource is called, and without what the server adds."""
    return orjson.loads(re.sub(rf'"meta":\{{[^}}]*\}},?|{made}', "", orjson.dumps(calls).decode()))


async def test_what_is_rehearsed_is_what_is_then_done(
    service_site, interchange, request: pytest.FixtureRequest
) -> None:
    """A stay, a change of number, a link and a merge at the service: each planned call is the one that is then made.

    What would go in one transaction is told request by request, so they go so here.
    """
    await service_site.again(bundle="off")
    name = "".join(letter for letter in request.node.name if letter.isalnum())
    for day, (event, pid, visit) in enumerate(STAY, 1):
        at = f"202603{day:02d}080000"
        head = f"MSH|^~\\&|REG|RIVERBEND|||{at}||ADT^{event}|{event}{day}|P|2.5.1\rEVN|{event}|{at}"
        plan = MAPPING.plan(parse("\r".join((head, pid.format(name), numbered(visit, name))).encode()))
        told = await service_site.destination.dry_run(plan, service_site.memory, at=AT)
        verdict = await service_site.deliver(plan, replay=True)
        assert (told.verdict.kind, told.verdict.reason) == (verdict.kind, verdict.reason), event
        assert verdict.kind is VerdictKind.DELIVERED
        done = [one.request for one in verdict.attempts if ("If-Match", NEVER_A_VERSION) not in one.request.headers]
        base = f"{service_site.destination.settings.base_url}/"
        sent = [(one.method, one.url.removeprefix(base), orjson.loads(one.body or b"null")) for one in done]
        planned = [(call.method, call.path, call.body) for call in told.calls]
        ids = "|".join(
            {text for text in re.findall(r"[0-9a-f]{24}", repr(sent)) if text not in repr(planned)} or {"(?!)"}
        )
        assert plain(planned, r"new-\d+") == plain(sent, ids), event
