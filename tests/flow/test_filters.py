"""Filters of a channel, on an engine with two servers: filtered, refused, sent to one only, merged wherever known."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.flow.operator import done, finished, message, refused, sent
from tests.flow.rig import Rig, channel_file, destination, running, write

FILTERS: list[dict[str, Any]] = [
    {"rule": "test-patients", "when": "PID-5.1 starts-with ZZTEST", "do": "filter"},
    {"rule": "no-birth-date", "when": "event in (A01, A28) and not PID-7", "do": "refuse"},
    {"rule": "to-the-wards", "when": "PV1-2 in [I, E] or event = A40", "send_to": ["wards"]},
    {"rule": "to-the-archive", "when": "PV1-2 = O", "send_to": ["archive"]},
]
INPATIENT = "PV1|1|I|3W^312^A^RVB\r"
OUTPATIENT = "PV1|1|O|CLINIC^^^RVB\r"
STANDING = """
SELECT entry.control_id, entry.state, delivery.destination, delivery.state, delivery.reason
FROM entry LEFT JOIN delivery USING (seq) ORDER BY entry.seq, delivery.destination
"""


class Servers:
    """The rig's own service as `wards`, that of a second rig as `archive`; the first engine delivers to both."""

    def __init__(self, wards: Rig, archive: Rig) -> None:
        self.rig = wards
        self.archive = archive

    async def start(self, **channel: Any) -> None:
        """Start the engine on a channel with both destinations and the filters."""
        self.write(**channel)
        await self.rig.engine.start()

    def write(self, **channel: Any) -> None:
        """Write the channel file."""
        both = [
            destination(self.rig.proxy.url, name="wards"),
            destination(self.archive.proxy.url, name="archive"),
        ]
        made = channel_file(self.rig.proxy.url) | {"destinations": both, "filters": FILTERS} | channel
        write(self.rig.folder / "channels" / "riverbend-adt.yaml", made)

    async def ended(self) -> dict[str, dict[str, str]]:
        """Wait until nothing is on its way; return by control ID how the entry ended where (`door`: at no server)."""
        await self.rig.drained()
        found: dict[str, dict[str, str]] = {}
        for control_id, at_door, name, state, reason in self.rig._query(STANDING):
            mine = found.setdefault(control_id, {})
            mine[name or "door"] = f"{state} {reason}" if name else at_door
        return found

    async def who(self, number: str) -> tuple[int, int]:
        """Return how many patients each server finds by a number."""
        return len(await self.rig.numbered(number)), len(await self.archive.numbered(number))


@pytest.fixture
async def servers(tmp_path: Path) -> AsyncIterator[Servers]:
    """Two services behind their proxies; the test starts the engine."""
    (tmp_path / "wards").mkdir()
    (tmp_path / "archive").mkdir()
    async with running(tmp_path / "wards") as wards, running(tmp_path / "archive") as archive:
        yield Servers(wards, archive)


async def test_filtered_refused_and_sent_to_one_only(servers: Servers) -> None:
    """Each by its rule, which is told to the sender where it refuses, counted, and stays with the entry."""
    await servers.start(acknowledge={"when": "delivered", "within_seconds": 20})
    rig = servers.rig
    answers = await sent(
        rig,
        message("C1", "RB-1", event="A28", family="ZZTEST"),
        message("C2", "RB-2", event="A01", born="", more=INPATIENT),
        message("C3", "RB-3", event="A01", more=INPATIENT),
        message("C4", "RB-4", event="A04", more=OUTPATIENT),
        message("C5", "RB-5", event="A28"),
    )
    assert [answer.code for answer in answers] == ["AA", "AR", "AA", "AA", "AA"]
    assert [code for code, _ in answers[1].errors] == ["207"]
    found = await servers.ended()
    assert (found["C1"], found["C2"]) == ({"door": "filtered"}, {"door": "rejected"})
    assert {name: set(found[name]) for name in ("C3", "C4", "C5")} == {
        "C3": {"wards"}, "C4": {"archive"}, "C5": {"wards", "archive"},
    }  # fmt: skip
    assert [await servers.who(f"RB-{number}") for number in range(1, 6)] == [(0, 0), (0, 0), (1, 0), (0, 1), (1, 1)]
    (channel,) = await done(rig, "channels.list")
    rules = {"test-patients": 1, "no-birth-date": 1, "to-the-wards": 1, "to-the-archive": 1}
    assert (channel["filtered"], channel["rules"]) == (1, rules)
    assert (await done(rig, "messages.counts"))["rules"] == {"riverbend-adt": rules}
    metrics = str(await done(rig, "metrics"))
    assert 'adt_filter_rules_total{channel="riverbend-adt",does="refuse",rule="no-birth-date"} 1.0' in metrics
    assert 'adt_filter_rules_total{channel="riverbend-adt",does="send",rule="to-the-wards"} 1.0' in metrics
    assert (await done(rig, "messages.show", entry=3))["flags"] == ["by-rule to-the-wards"]
    told = await done(rig, "messages.explain", entry=3)
    assert (told["rule"]["name"], told["sent_by"]["name"], told["sent_by"]["send_to"]) == (
        "admit", "to-the-wards", ["wards"],
    )  # fmt: skip
    assert (Path(told["sent_by"]["file"]).name, told["sent_by"]["line"]) == ("riverbend-adt.yaml", 1)
    told = await done(rig, "messages.explain", entry=1)
    assert (told["action"], told["rule"]["name"]) == ("filter", "test-patients")
    assert Path(told["rule"]["file"]).name == "riverbend-adt.yaml"


async def test_an_answer_waits_only_for_where_the_message_goes(servers: Servers) -> None:
    """With `acknowledge: delivered` a server that is down keeps no message waiting that is not sent there."""
    await servers.start(acknowledge={"when": "delivered", "within_seconds": 3})
    await servers.archive.service.kill()
    answers = await sent(
        servers.rig,
        message("C1", "RB-1", event="A01", more=INPATIENT),
        message("C2", "RB-2", event="A04", more=OUTPATIENT),
    )
    assert [answer.code for answer in answers] == ["AA", "AE"]
    again = await sent(servers.rig, message("C1", "RB-1", event="A01", more=INPATIENT))
    assert [one.code for one in again] == ["AA"]


async def test_a_merge_goes_wherever_one_of_its_patients_went(servers: Servers) -> None:
    """An A40 that its filter sends to the wards is merged in the archive, too, where that has either; else not."""
    await servers.start()
    await sent(
        servers.rig,
        message("C1", "RB-1", event="A01", more=INPATIENT),
        message("C2", "RB-2", event="A04", more=OUTPATIENT),
        message("C3", "RB-1", event="A40", more="MRG|RB-2^^^RVB^MR\r"),
        message("C4", "RB-3", event="A01", more=INPATIENT),
        message("C5", "RB-4", event="A01", more=INPATIENT),
        message("C6", "RB-3", event="A40", more="MRG|RB-4^^^RVB^MR\r"),
    )
    found = await servers.ended()
    assert (set(found["C3"]), set(found["C6"])) == ({"wards", "archive"}, {"wards"})
    assert all(state.startswith("delivered") for one in found.values() for state in one.values()), found
    assert await servers.who("RB-3") == (1, 0)
    active = [patient for patient in (await servers.archive.patients()).values() if patient.get("active", True)]
    assert len(active) == 1
    assert await servers.who("RB-1") == (1, 1)


async def test_kills_and_reloads_leave_what_was_decided(servers: Servers) -> None:
    """What was sent to one server only goes there after a kill, whatever the filters say by then; so does a replay."""
    await servers.start()
    rig = servers.rig
    await rig.service.kill()
    await sent(rig, message("C1", "RB-1", event="A01", more=INPATIENT))
    await rig.engine.kill()
    servers.write(filters=[{"rule": "nobody", "when": "PID-3", "do": "filter"}])
    await rig.service.start()
    await rig.engine.start()
    found = await servers.ended()
    assert set(found["C1"]) == {"wards"}
    assert await servers.who("RB-1") == (1, 0)
    await done(rig, "messages.replay", entry=1)
    assert set((await servers.ended())["C1"]) == {"wards"}
    planned = await done(rig, "messages.rehearse", entry=1)
    assert [one["destination"] for one in planned["destinations"]] == ["wards"]
    assert "filters send it elsewhere" in str(await refused(rig, "messages.replay", entry=1, destination="archive"))
    run = await finished(rig, (await done(rig, "replays.start", destination="archive"))["run"])
    assert (run["counts"], "elsewhere" in run["refusals"][0]["why"]) == ({"refused": 1}, True)
    servers.write(filters=[{"rule": "both", "when": "PID-3", "send_to": ["archive", "wards"]}])
    assert "changed" in await done(rig, "reload")
    run = await finished(rig, (await done(rig, "replays.start", destination="archive"))["run"])
    assert run["counts"] == {"delivered": 1}
    assert set((await servers.ended())["C1"]) == {"wards", "archive"}
    assert await servers.who("RB-1") == (1, 1)


async def test_shadow_tries_only_where_it_would_be_sent(servers: Servers) -> None:
    """A dry run at the wards alone; nothing is written anywhere."""
    await servers.start(mode="shadow")
    await sent(servers.rig, message("C1", "RB-1", event="A01", more=INPATIENT))
    await servers.rig.until(lambda rows: [row.state for row in rows] == ["filtered"])
    assert set((await servers.ended())["C1"]) == {"wards"}
    shown = await done(servers.rig, "messages.show", entry=1)
    assert shown["flags"] == ["shadow", "by-rule to-the-wards"]
    assert await servers.who("RB-1") == (0, 0)


async def test_what_a_new_mapping_filters_is_not_called_delivered(tmp_path: Path) -> None:
    """Taken in before the site's event file filtered it, and delivered after: it ends as filtered, by that rule."""
    site = tmp_path / "mappings"
    site.mkdir()
    events = {"mapping": "adt", "extends": "shipped/adt"}
    write(site / "adt.yaml", events)
    async with running(tmp_path) as rig:
        rig.engine.arguments = (*rig.engine.arguments, "--mappings", "mappings")
        await rig.engine.start()
        await rig.engine.line("started")
        await done(rig, "destinations.pause", destination="interchange", reason="a test")
        await sent(rig, message("C1", "RB-1", event="A28"), message("C2", "RB-2", event="A28", family="ZZTEST"))
        no_tests = {"rule": "no-tests", "when": "PID-5.1 starts-with ZZTEST", "do": "filter"}
        write(site / "adt.yaml", events | {"filters": [no_tests]})
        assert (await done(rig, "reload"))["changed"] == ["mapping adt"]
        assert (await done(rig, "reload"))["changed"] == []
        await done(rig, "destinations.resume", destination="interchange")
        await rig.drained()
        assert [(row.state, row.reason) for row in rig.rows()] == [("delivered", "created"), ("filtered", "no-tests")]
        assert len(await rig.numbered("RB-2")) == 0
