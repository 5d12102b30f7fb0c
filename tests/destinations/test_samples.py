"""The shipped samples through the double of each server: what the shipped service ends with, but for what is lacking.

What a server cannot do is in its profile (`lacks`), and in the table of the page on servers.
"""

from collections import Counter
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest

from engine.config.profile import profile_of
from engine.config.samples import load_samples
from engine.config.settings import shipped
from engine.config.source import read
from engine.ops.sender.feed import fields
from engine.ops.sender.line import send_messages
from tests.deliver.fake_chart import references_in
from tests.deliver.fake_fhir import FakeFhir
from tests.destinations.double_rig import SERVERS, Ending, ProfilesRig, content_of, kept

ITS_OWN: Final = "https://cdis.example"
PATIENT: Final = {"resourceType": "Patient", "identifier": [{"system": "https://mrn.riverbend.example", "value": "1"}]}
CONDITION: Final = {"If-None-Exist": "identifier=https://mrn.riverbend.example|1"}
NEW: Final = {"If-None-Match": "*"}


@pytest.fixture
async def double(request: pytest.FixtureRequest) -> AsyncIterator[FakeFhir]:
    """The double of the profile that the test names."""
    server = SERVERS[request.param]()
    await server.start()
    yield server
    await server.stop()


@pytest.mark.parametrize(("double", "name"), [(name, name) for name in SERVERS], indirect=["double"])
async def test_a_profile_lacks_what_its_double_cannot_do(double: FakeFhir, name: str) -> None:
    """A merge, ids of a client and conditions are tried at the double; the profile says the same of each."""
    async with aiohttp.ClientSession(double.base.removesuffix("/R4") + "/") as session:
        statuses = {}
        for lack, method, path, headers in (
            ("merge", "POST", "R4/Patient/$merge", {}),
            ("client-ids", "PUT", "R4/Patient/new", NEW),
            ("", "POST", "R4/Patient", CONDITION),
            ("conditions", "POST", "R4/Patient", CONDITION),
        ):
            double.patients.pop("new", None)
            body = PATIENT | ({"id": "new"} if method == "PUT" else {})
            async with session.request(method, path, json=body, headers=headers) as answer:
                statuses[lack] = answer.status
    # What was created in spite of its condition is a second record.
    found = {"merge": statuses["merge"] == 404, "client-ids": statuses["client-ids"] == 404}
    found["conditions"] = statuses["conditions"] == 201
    assert {lack for lack, lacking in found.items() if lacking} == set(profile_of(name).lacks) - {"demographics"}


async def held_by_service(rig: ProfilesRig) -> dict[str, dict[str, Any]]:
    """Return what the shipped service holds, by reference, without the number that it gives itself."""
    found = {f"Patient/{logical_id}": body for logical_id, body in (await rig.patients()).items()}
    found |= {f"Encounter/{visit['id']}": visit for visit in await rig.visits(await rig.patients())}
    waiting = references_in(list(found.values()))
    while waiting:
        reference = waiting.pop()
        if reference not in found:
            found[reference] = await rig.get(f"/{reference}")
            waiting += references_in(found[reference])
    for body in found.values():
        body["identifier"] = [one for one in body.get("identifier", ()) if one.get("system") != ITS_OWN]
    return found


def without(lacks: tuple[str, ...], ends: Mapping[str, Ending]) -> dict[str, Ending]:
    """Return how messages end at a server without some abilities, from how they end at the shipped service."""
    instead = {}
    if "merge" in lacks:
        instead[Ending("delivered", "merged")] = Ending("delivered", "linked")
    if "demographics" in lacks:
        instead[Ending("held", "missing-required")] = Ending("delivered", "created")
    return {control_id: instead.get(end, end) for control_id, end in ends.items()}


def of_patient(everything: Mapping[str, dict[str, Any]], number: str) -> set[str]:
    """Return a patient, the visits and what they name, by reference."""
    people = {
        reference
        for reference, body in everything.items()
        if body["resourceType"] == "Patient" and any(one["value"] == number for one in body["identifier"])
    }
    found = people | {name for name, body in everything.items() if body.get("subject", {}).get("reference") in people}
    waiting = list(found)
    while waiting:
        named = set(references_in(everything[waiting.pop()])) - found
        found |= named
        waiting += named
    return found


@pytest.mark.process
async def test_the_samples_end_as_at_the_shipped_service(tmp_path: Path) -> None:
    """One engine delivers each sample to the service and to all doubles: the same ends, the same records."""
    channel = read(shipped("channels") / "riverbend-adt.yaml").value
    policies = {key: value for key, value in channel.items() if key not in {"listen", "destinations", "contact"}}
    rig = ProfilesRig(tmp_path, {name: kind() for name, kind in SERVERS.items()}, with_service=True)
    try:
        await rig.open(**policies)
        await rig.engine.start()
        host, port = await rig.address()
        samples = load_samples(shipped("samples"))
        await send_messages(host, port, [sample.raw for sample in samples])
        await rig.until(lambda rows: not any(row.state in {"received", "claimed"} for row in rows))
        ends = rig.ends()
        served = content_of(await held_by_service(rig))
    finally:
        await rig.close()
    at_service = ends.pop("shipped")
    assert Ending("delivered", "merged") in at_service.values()
    (held,) = [control_id for control_id, end in at_service.items() if end == Ending("held", "missing-required")]
    (row,) = {row.raw for row in rig.rows() if row.control_id == held}
    number = fields(row, b"PID")[0][3].partition(b"^")[0].decode()
    for name, double in rig.doubles.items():
        lacks = profile_of(name).lacks
        assert (name, ends[name]) == (name, without(lacks, at_service))
        everything = kept(double)
        mine = content_of(everything)
        unborn = content_of(everything, of_patient(everything, number)) if "demographics" in lacks else Counter()
        assert (name, sorted((served - mine).elements())) == (name, [])
        assert (name, sorted((mine - served - unborn).elements())) == (name, [])
        assert (name, bool(mine - served)) == (name, "demographics" in lacks)
