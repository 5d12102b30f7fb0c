"""Two destinations with a mapping each: one message, judged once, written to each server by its own mapping."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.flow.feed import SYSTEM
from tests.flow.operator import alike, done, ended, message, refused, sent
from tests.flow.rig import Rig, channel_file, destination, running, write
from tests.flow.test_results import potassium, report

VISIT = "PV1|1|I|3W^312^A^RVB||||1187^Osei^Ada||||||||||||V-1^^^RVB\r"
REGISTRY = (
    "mapping: registry\nextends: shipped/adt\nresources: [Patient]\nevents:\n  A31: {skip: not-for-the-registry}\n"
)
PATIENT = "resource: Patient\nextends: shipped/patient\nelements:\n  telecom:\n  maritalStatus:\n"
DELIVERED = "SELECT seq, destination, state, reason, mapping FROM delivery ORDER BY seq, destination"


class Servers:
    """The rig's own service as `wards`, by the channel's mapping; that of a second rig as `registry`, by its own."""

    def __init__(self, wards: Rig, registry: Rig) -> None:
        self.rig = wards
        self.registry = registry
        self.mappings = wards.folder / "mappings"
        (self.mappings / "registry" / "resources").mkdir(parents=True)
        (self.mappings / "registry.yaml").write_text(REGISTRY)
        self.patient(PATIENT)
        wards.engine.arguments = (*wards.engine.arguments, "--mappings", "mappings")

    def patient(self, text: str) -> None:
        """Write the Patient's file of the registry's mapping."""
        (self.mappings / "registry" / "resources" / "patient.yaml").write_text(text)

    def write(self, **channel: Any) -> None:
        """Write the channel file."""
        both = [
            destination(self.rig.proxy.url, name="wards"),
            destination(self.registry.proxy.url, name="registry", mapping="registry"),
        ]
        made = channel_file(self.rig.proxy.url) | {"destinations": both} | channel
        write(self.rig.folder / "channels" / "riverbend-adt.yaml", made)

    async def start(self, **channel: Any) -> None:
        """Start the engine on a channel with both destinations."""
        self.write(**channel)
        await self.rig.engine.start()

    async def deliveries(self) -> dict[tuple[int, str], tuple[str, str, str]]:
        """Wait until nothing is on its way; return state, reason and hash of the mapping by entry and destination."""
        await self.rig.drained()
        return {(seq, name): (state, reason, mark) for seq, name, state, reason, mark in self.rig._query(DELIVERED)}

    async def both(self, number: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the one Patient that each server finds by a number."""
        (ward,), (registered,) = await self.rig.numbered(number), await self.registry.numbered(number)
        return ward, registered


@pytest.fixture
async def servers(tmp_path: Path) -> AsyncIterator[Servers]:
    """Two services behind their proxies; the test starts the engine."""
    for name in ("wards", "registry"):
        (tmp_path / name).mkdir()
    async with running(tmp_path / "wards") as wards, running(tmp_path / "registry") as registry:
        yield Servers(wards, registry)


async def test_one_message_becomes_another_resource_at_each(servers: Servers) -> None:
    """One entry, one answer; the registry gets neither phone nor visit; an event that it skips is filtered there."""
    await servers.start()
    answers = await sent(
        servers.rig,
        message("C1", "RB-1", event="A01", more=VISIT),
        message("C2", "RB-1", event="A31", phone="5550177"),
        message("C3", "RB-2", event="A28"),
        message("C4", "RB-1", event="A40", more="MRG|RB-2^^^RVB^MR\r"),
    )
    assert [answer.code for answer in answers] == ["AA"] * 4
    found = await servers.deliveries()
    ends = {name: [found[seq, name][:2] for seq in (1, 2, 3, 4)] for name in ("wards", "registry")}
    assert ends == {
        "wards": [("delivered", reason) for reason in ("created", "updated", "created", "merged")],
        "registry": [
            ("delivered", "created"), ("filtered", "not-for-the-registry"), ("delivered", "created"),
            ("delivered", "merged"),
        ],
    }  # fmt: skip
    (channel,) = await done(servers.rig, "channels.list")
    assert (channel["messages"], len(servers.rig.rows()), len(found)) == (4, 8, 8)
    marks = {
        name: {mark for (_, where), (*_, mark) in found.items() if where == name} for name in ("wards", "registry")
    }
    assert (len(marks["wards"]), len(marks["registry"]), marks["wards"] & marks["registry"]) == (1, 1, set())
    ward, registered = await servers.both("RB-1")
    assert "5550177" in str(ward["telecom"])
    assert "telecom" not in registered
    assert ward["name"] == registered["name"]
    assert (len(await servers.rig.visits([ward["id"]])), len(await servers.registry.visits([registered["id"]]))) == (
        1,
        0,
    )


async def test_replay_dry_run_and_reload_take_the_destination_s_mapping(servers: Servers) -> None:
    """A mapping of one destination changes: the other's is what it was, and a replay there alone writes by the new."""
    await servers.start()
    await sent(servers.rig, message("C1", "RB-1", event="A28"))
    before = await servers.deliveries()
    servers.patient(PATIENT.replace("  telecom:\n", ""))
    assert (await done(servers.rig, "reload"))["changed"] == ["mapping registry"]
    planned = {
        one["destination"]: one for one in (await done(servers.rig, "messages.rehearse", entry=1))["destinations"]
    }
    assert "telecom" in str(planned["registry"])
    assert planned["wards"]["reason"] == "unchanged"
    written = len(servers.rig.proxy.calls)
    await done(servers.rig, "messages.replay", entry=1, destination="registry")
    after = await servers.deliveries()
    assert len(servers.rig.proxy.calls) == written
    assert after[1, "wards"] == before[1, "wards"]
    assert after[1, "registry"][2] != before[1, "registry"][2]
    ward, registered = await servers.both("RB-1")
    assert ward["telecom"] == registered["telecom"]


async def test_shadow_and_what_was_kept(servers: Servers) -> None:
    """A rehearsal shows what each would get, by its mapping; so does the delivery of what was kept."""
    await servers.start(mode="shadow")
    await sent(servers.rig, message("C1", "RB-1", event="A01", more=VISIT))
    found = await servers.deliveries()
    assert {state for state, *_ in found.values()} == {"filtered"}
    assert len({mark for *_, mark in found.values()}) == 2
    shown = {
        one["destination"]: str(one["plan"])
        for one in (await done(servers.rig, "messages.show", entry=1))["deliveries"]
    }
    assert ("Encounter" in shown["wards"], "Encounter" in shown["registry"]) == (True, False)
    servers.write()
    await done(servers.rig, "reload")
    await done(servers.rig, "replays.start", state="filtered", reason="shadow", since="1h")
    await servers.rig.until(ended("delivered", "delivered"))
    ward, registered = await servers.both("RB-1")
    assert ("telecom" in ward, "telecom" in registered) == (True, False)


async def test_explained_by_the_mapping_of_a_destination(servers: Servers) -> None:
    """By the channel's unless a destination is named; a name that the channel does not have is refused."""
    await servers.start()
    await sent(servers.rig, message("C1", "RB-1", event="A28"))
    found = await servers.deliveries()
    own = await done(servers.rig, "messages.explain", entry=1, element="Patient.telecom")
    assert (own["destination"], own["mapping_name"], own["own_mappings"]) == ("", "adt", {"registry": "registry"})
    assert own["elements"]
    assert own["mapping"] == found[1, "wards"][2]
    other = await done(servers.rig, "messages.explain", entry=1, destination="registry")
    assert (other["destination"], other["mapping_name"]) == ("registry", "registry")
    assert other["mapping"] == found[1, "registry"][2]
    assert not [one for one in other["elements"] if one["element"].startswith("Patient.telecom")]
    told = await refused(servers.rig, "messages.explain", entry=1, destination="registri")
    assert told == "the channel riverbend-adt has no destination 'registri'; did you mean 'registry'?"
    (channel,) = await done(servers.rig, "channels.list")
    assert (channel["mapping"], channel["own_mappings"]) == ("adt", {"registry": "registry"})


async def test_the_choice_of_a_record_is_delivered_by_that_mapping(servers: Servers) -> None:
    """Held at one destination, where two records match; what is chosen there gets what that server's mapping makes."""
    first, _second = [await alike(servers.registry, "QuinteroB") for _ in range(2)]
    await servers.start()
    await sent(servers.rig, message("C1", "RB-1", event="A28"))
    await servers.rig.until(lambda rows: sorted(row.state for row in rows) == ["delivered", "held"])
    asked = await done(servers.rig, "messages.matches", entry=1)
    assert (asked["destination"], len(asked["matches"])) == ("registry", 2)
    await done(servers.rig, "messages.resolve", entry=1, patient=first)
    found = await servers.deliveries()
    assert found[1, "registry"][0] == "delivered"
    assert found[1, "registry"][2] != found[1, "wards"][2]
    _ward, registered = await servers.both("RB-1")
    assert (registered["id"], "telecom" in registered) == (first, False)


async def test_results_too(servers: Servers) -> None:
    """A channel for results: one server gets reports with their observations, the other the reports alone."""
    (servers.mappings / "registry.yaml").write_text(
        "mapping: registry\nextends: shipped/oru\nresources: [DiagnosticReport]\n"
    )
    numbered = [{"system": SYSTEM, "value": "RB-1"}]
    whose = [(rig, await alike(rig, identifier=numbered)) for rig in (servers.rig, servers.registry)]
    await servers.start(mapping="oru", authorities={"RVB": SYSTEM, "CENTRAL": "https://central.example"})
    await sent(servers.rig, report("L1", potassium()))
    assert {state for state, *_ in (await servers.deliveries()).values()} == {"delivered"}
    counts = [
        len((await rig.get(f"/{type_}?patient={patient}")).get("entry", ()))
        for rig, patient in whose
        for type_ in ("DiagnosticReport", "Observation")
    ]
    assert counts == [1, 1, 1, 0]


async def test_an_unmapped_code_names_whose_mapping_has_no_row(servers: Servers) -> None:
    """The registry's mapping does not read the marital status, so that the code is unmapped at the other alone."""
    await servers.start()
    await sent(servers.rig, message("C1", "RB-1", event="A28").removesuffix(b"\r") + b"|||XX\r")
    await servers.deliveries()
    (unmapped,) = (await done(servers.rig, "codes.unmapped"))["codes"]
    assert (unmapped["place"], unmapped["entries"], unmapped["destinations"]) == ("PID-16", 1, ["wards"])
