"""Cut-over: a channel that was in shadow goes live; what is sent again is not lost, and what shadow kept comes in."""

from pathlib import Path

from engine.journal.entry import FROM_SHADOW, LOAD, SENT_AGAIN
from tests.flow.operator import configured, done, ended, finished, message, refused, sent, started
from tests.flow.rig import Rig, channel_file, destination, running, write
from tests.ops.command import command

WEEKEND = (
    message("W1", "RB-1", event="A28", at="20260227180000"),
    message("W2", "RB-2", event="A28", at="20260227190000"),
    message("W3", "RB-1", phone="5550199", at="20260228080000"),
    message("W4", "RB-1", event="A40", more="MRG|RB-2^^^RVB^MR\r", at="20260228090000"),
)
NO_TESTS = {"rule": "no-tests", "when": "PID-5.1 starts-with ZZTEST", "do": "filter"}


async def test_what_is_sent_again_once_the_channel_is_live_is_delivered(tmp_path: Path) -> None:
    """The sender repeats its weekend byte for byte: each is an entry of its own; once more it is a duplicate."""
    async with running(tmp_path, mode="shadow") as rig:
        await started(rig)
        await sent(rig, *WEEKEND, WEEKEND[0])
        await rig.until(ended(*["filtered"] * 4))
        await configured(rig)
        answers = await sent(rig, *WEEKEND)
        assert [answer.code for answer in answers] == ["AA"] * 4
        await rig.until(ended(*["filtered"] * 4, *["delivered"] * 4))
        assert len(await rig.numbered("RB-1")) == 1
        shown = await done(rig, "messages.show", entry=5)
        assert shown["flags"] == [SENT_AGAIN]
        assert shown["acknowledgement"] != (await done(rig, "messages.show", entry=1))["acknowledgement"]
        assert [one.code for one in await sent(rig, *WEEKEND)] == ["AA"] * 4
        assert len(await rig.until(lambda rows: len(rows) >= 8)) == 8
        receipts = [(await done(rig, "messages.facts", entry=at))["receipts"] for at in (1, 2, 5, 6)]
        assert receipts == [2, 1, 2, 2]
        assert "something newer" in await refused(rig, "messages.replay", entry=1)


async def test_the_mode_goes_back_to_shadow_in_between(tmp_path: Path) -> None:
    """What took effect while the channel was live is not tried again in shadow; what did not still comes in later."""
    async with running(tmp_path) as rig:
        await started(rig)
        await sent(rig, WEEKEND[0])
        await rig.until(ended("delivered"))
        await configured(rig, mode="shadow")
        await sent(rig, WEEKEND[0], WEEKEND[1])
        await rig.until(ended("delivered", "filtered"))
        await configured(rig)
        await sent(rig, WEEKEND[0], WEEKEND[1], WEEKEND[1])
        await rig.until(ended("delivered", "filtered", "delivered"))


async def test_what_came_in_a_load_is_no_duplicate_afterwards(tmp_path: Path) -> None:
    """In the load the same again is counted; once the channel is live it is a message of its own."""
    async with running(tmp_path, mode="load") as rig:
        await started(rig)
        await sent(rig, WEEKEND[0], WEEKEND[0])
        await rig.until(ended("delivered"))
        assert (await done(rig, "messages.show", entry=1))["flags"] == [LOAD]
        await configured(rig)
        await sent(rig, WEEKEND[0], WEEKEND[0])
        await rig.until(ended("delivered", "delivered", reasons=["created", "unchanged"]))


async def test_what_a_rule_filtered_that_is_gone_comes_in_when_it_is_sent_again(tmp_path: Path) -> None:
    """The same bytes are delivered; while the rule holds they are a duplicate, and a rule that refuses refuses them."""
    async with running(tmp_path, filters=[NO_TESTS]) as rig:
        await started(rig)
        raw = message("F1", "RB-5", event="A28", family="ZZTEST")
        await sent(rig, raw, raw)
        await rig.until(ended("filtered"))
        await configured(rig, filters=[NO_TESTS | {"do": "refuse"}])
        assert [one.code for one in await sent(rig, raw)] == ["AR"]
        await configured(rig)
        assert [one.code for one in await sent(rig, raw, raw)] == ["AA", "AA"]
        await rig.until(ended("filtered", "rejected", "delivered"))
        assert (await done(rig, "messages.facts", entry=3))["flags"] == [SENT_AGAIN]


async def test_what_shadow_kept_is_delivered_since_a_time(tmp_path: Path) -> None:
    """Planned and tried first, then in journal order; a resend is a duplicate then, newer data is not gone over."""
    async with running(tmp_path, mode="shadow") as rig:
        await started(rig)
        await sent(rig, *WEEKEND, message("W5", "RB-7", event="A28"))
        await rig.until(ended(*["filtered"] * 5))
        assert "is in shadow" in await refused(rig, "kept.start", channel="riverbend-adt", since="12h")
        assert (await done(rig, "kept.plan", channel="riverbend-adt", since="12h"))["count"] == 5
        await configured(rig)
        await sent(rig, message("L1", "RB-7", phone="5550177"))
        await rig.until(ended(*["filtered"] * 5, "delivered"))
        dry = await done(rig, "messages.rehearse", entry=1)
        assert [(one["destination"], one["verdict"], one["overtaken"]) for one in dry["destinations"]] == [
            ("interchange", "delivered", False)
        ]
        plan = await done(rig, "kept.plan", channel="riverbend-adt", since="12h")
        assert (plan["count"], plan["overtaken"], plan["pending"], plan["tried"]) == (5, 1, 0, 5)
        assert plan["states"] == {"filtered": 5}
        assert (await done(rig, "kept.plan", channel="riverbend-adt", since="2040-01-01"))["count"] == 0
        run = await finished(rig, (await done(rig, "kept.start", channel="riverbend-adt", since="12h"))["run"])
        assert run["counts"] == {"delivered": 4, "refused": 1}
        assert "something newer" in run["refusals"][0]["why"]
        await rig.until(ended(*["delivered"] * 4, "filtered", "delivered"))
        assert (await done(rig, "messages.facts", entry=3))["flags"] == [FROM_SHADOW]
        assert len(await rig.numbered("RB-1")) == 1
        await sent(rig, *WEEKEND)
        assert len(rig.rows()) == 6
        acts = [one["act"] for one in await done(rig, "audit.list", limit=200)]
        assert "kept.start" in acts


async def test_the_command_shows_tries_and_delivers_what_shadow_kept(tmp_path: Path) -> None:
    """`channels deliver`: with --dry-run each planned call and nothing else; then a run that is watched to its end."""
    async with running(tmp_path, mode="shadow") as rig:
        await started(rig)
        await sent(rig, *WEEKEND[:2])
        await rig.until(ended("filtered", "filtered"))
        await configured(rig)
        given = ("channels", "deliver", "riverbend-adt", "--since", "12h")
        tried = await command(*given, "--dry-run", data=tmp_path / "data")
        assert (tried.returncode, "would be delivered created" in tried.stdout) == (0, True), tried
        assert [row.state for row in rig.rows()] == ["filtered", "filtered"]
        ran = await command(*given, "--yes", data=tmp_path / "data")
        assert (ran.returncode, "2 delivered" in ran.stdout) == (0, True), ran
        await rig.until(ended("delivered", "delivered"))
        missing = await command("channels", "deliver", "riverbend-adt", "--yes", data=tmp_path / "data")
        assert missing.returncode == 2


async def test_one_of_two_destinations_was_in_shadow(tmp_path: Path) -> None:
    """Delivered to one, kept at the other: sent again, it goes there alone; delivered later, it goes there alone."""
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    async with running(tmp_path / "one") as rig, running(tmp_path / "two") as second:
        both = [destination(rig.proxy.url, name="wards"), destination(second.proxy.url, name="archive")]
        await configured_before(rig, both)
        await started(rig)
        await done(rig, "destinations.pause", destination="archive", reason="a test")
        await sent(rig, *WEEKEND[:2])
        await rig.until(lambda rows: len(rows) == 4 and sum(row.state == "delivered" for row in rows) == 2)
        await configured(rig, destinations=both, mode="shadow")
        await done(rig, "destinations.resume", destination="archive")
        await rig.until(lambda rows: sorted(row.state for row in rows) == ["delivered"] * 2 + ["filtered"] * 2)
        await configured(rig, destinations=both)
        await sent(rig, WEEKEND[0], WEEKEND[0])
        await rig.drained()
        shown = await done(rig, "messages.facts", entry=3)
        assert [(one["destination"], one["reason"]) for one in shown["deliveries"]] == [("archive", "created")]
        plan = await done(rig, "kept.plan", channel="riverbend-adt", since="12h")
        assert (plan["count"], plan["overtaken"]) == (2, 1)
        run = await finished(rig, (await done(rig, "kept.start", channel="riverbend-adt", since="12h"))["run"])
        assert run["counts"] == {"delivered": 1, "refused": 1}
        shown = await done(rig, "messages.facts", entry=2)
        assert {one["destination"]: (one["state"], one["replay"]) for one in shown["deliveries"]} == {
            "archive": ("delivered", True), "wards": ("delivered", False),
        }  # fmt: skip


async def configured_before(rig: Rig, destinations: list) -> None:
    """Write the channel file before the engine starts."""
    write(
        rig.folder / "channels" / "riverbend-adt.yaml",
        channel_file(rig.proxy.url) | {"destinations": destinations},
    )
