"""`identity.normalise` on a feed that has run: named before, put in force by a reload, and no chart is made twice."""

import asyncio
from typing import Any

import orjson
import pytest
from typer.testing import CliRunner

from engine.__main__ import app
from tests.flow.feed import SYSTEM
from tests.flow.operator import done, ended, message, sent, started
from tests.flow.rig import Rig

RULE = "mapping: adt\nextends: shipped/adt\nidentity:\n  normalise: {RVB: {leading_zeros: strip}}\n"
# The charts from before the rule, each in the one spelling that it had.
BEFORE = ("0001", "02", "3", "00004")


class NormalisedFeed:
    """A rig with a mapping folder, and the commands that look at it."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.mappings = rig.folder / "mappings"
        self.mappings.mkdir()
        rig.engine.arguments = (*rig.engine.arguments, "--mappings", "mappings")

    def rule(self, text: str = RULE) -> None:
        """Write the site's event file."""
        (self.mappings / "adt.yaml").write_text(text)

    async def ran(self) -> None:
        """Start without the rule and let the feed make its charts."""
        await started(self.rig)
        await sent(self.rig, *(person(f"B{number}", number, "A28") for number in BEFORE))
        await self.rig.until(ended(*["delivered"] * len(BEFORE)))

    async def command(self, *arguments: str) -> str:
        """Run a command on the rig's files and return what it prints, or why it does not."""
        folder = self.rig.folder
        files = ("--channels", str(folder / "channels"), "--mappings", str(self.mappings))
        where = ("--data", str(folder / "data"))
        result = await asyncio.to_thread(CliRunner().invoke, app, [*arguments, *files, *where])
        assert result.exit_code in {0, 1}, result.output
        return " ".join((result.output + str(result.exception or "")).split())

    async def charts(self) -> dict[str, list[str]]:
        """Return the current numbers of each active chart, by family name."""
        found: dict[str, list[str]] = {}
        for body in (await self.rig.patients()).values():
            items = [item for item in body["identifier"] if item["system"] == SYSTEM and item.get("use") != "old"]
            found.setdefault(body["name"][0]["family"], []).extend(item["value"] for item in items)
        return found


def person(control_id: str, number: str, event: str = "A08", **more: Any) -> bytes:
    """A message about the person whose number this is, whatever its zeros."""
    return message(control_id, number, event=event, family=f"Person{'ABCDEFGH'[int(number)]}", **more)


@pytest.fixture
def feed(rig: Rig) -> NormalisedFeed:
    """A feed without the rule."""
    return NormalisedFeed(rig)


@pytest.mark.parametrize("journal", ["sqlite", "postgresql"], indirect=True)
async def test_a_reload_with_a_rule_makes_no_second_chart(feed: NormalisedFeed) -> None:
    """As sent before, in the form, and in a third spelling; after the next start, too."""
    await feed.ran()
    feed.rule()
    await done(feed.rig, "reload")
    await sent(
        feed.rig,
        person("N1", "0001", phone="5550201"),
        person("N2", "2", phone="5550202"),
        person("N3", "0003", phone="5550203"),
        person("N4", "04", phone="5550204"),
        person("N5", "005", "A28"),
    )
    await feed.rig.until(ended(*["delivered"] * 9))
    names = {f"Person{'ABCDEFGH'[number]}": [str(number)] for number in range(1, 6)}
    assert await feed.charts() == names
    await feed.rig.engine.stop()
    await started(feed.rig)
    await sent(feed.rig, person("N6", "5", phone="5550205"), person("N7", "00000004", phone="5550206"))
    await feed.rig.until(ended(*["delivered"] * 11))
    assert await feed.charts() == names


async def test_what_a_rule_would_do_is_named_before_it_is_in_force(feed: NormalisedFeed) -> None:
    """By `channels check --data`, `doctor`, `mappings diff --data` and `patients normalise`; and no number is shown."""
    await feed.ran()
    feed.rule()
    told = f"{SYSTEM} at interchange: numbers were searched as sent, will be searched without leading zeros"
    counts = "1 known are in this form, 3 are not"
    assert f"{told}; {counts}" in await feed.command("channels", "check", "--offline")
    assert f"{told}; {counts}" in await feed.command("doctor")
    old, new = "shipped", str(feed.mappings)
    compared = await asyncio.to_thread(
        CliRunner().invoke,
        app,
        ["mappings", "diff", old, new, "--data", str(feed.rig.folder / "data"), "--channel",
         str(feed.rig.folder / "channels" / "riverbend-adt.yaml")],
    )  # fmt: skip
    assert f"{told}; {counts}" in " ".join(compared.output.split())
    shown = await feed.command("patients", "normalise", "riverbend-adt", "--json")
    (report,) = orjson.loads(shown)["reports"]
    assert (report["in_form"], report["to_change"], report["several_charts"]) == (1, 3, 0)
    assert not any(number in compared.output + shown for number in ("0001", "00004"))
    await done(feed.rig, "reload")
    assert "numbers were searched" not in await feed.command("channels", "check", "--offline")
    assert "numbers are searched without leading zeros" in await feed.command("channels", "check", "--offline")
    feed.rule("mapping: adt\nextends: shipped/adt\n")
    taken_away = await feed.command("channels", "check", "--offline")
    assert "numbers were searched without leading zeros, will be searched as sent" in taken_away
    assert "charts made under the rule are not found by other spellings" in taken_away


@pytest.mark.parametrize("in_force", [False, True])
async def test_a_command_moves_all_of_them_over(feed: NormalisedFeed, in_force: bool) -> None:
    """The changes are messages: journaled, in their lanes, before or after the rule is in force."""
    await feed.ran()
    feed.rule()
    if in_force:
        await done(feed.rig, "reload")
    changes = feed.rig.folder / "changes.hl7"
    assert "3 changes of number" in await feed.command("patients", "normalise", "riverbend-adt", "--out", str(changes))
    assert changes.stat().st_mode & 0o077 == 0
    assert "is there already" in await feed.command("patients", "normalise", "riverbend-adt", "--out", str(changes))
    await sent(feed.rig, *(b"MSH" + part for part in changes.read_bytes().split(b"MSH")[1:]))
    await feed.rig.until(ended(*["delivered"] * (len(BEFORE) + 3)))
    names = {f"Person{'ABCDEFGH'[number]}": [str(number)] for number in range(1, 5)}
    assert await feed.charts() == names
    await done(feed.rig, "reload")
    assert "nothing to change" in await feed.command("patients", "normalise", "riverbend-adt")


async def test_several_charts_of_one_number_are_for_a_person(feed: NormalisedFeed) -> None:
    """Two charts that become one number: counted, never changed by the command, and held when a message comes."""
    await started(feed.rig)
    await sent(feed.rig, person("B1", "0001", "A28"), message("B2", "01", event="A28", family="Other", born="19990101"))
    await feed.rig.until(ended("delivered", "delivered"))
    feed.rule()
    report = orjson.loads(await feed.command("patients", "normalise", "riverbend-adt", "--json"))
    assert (report["reports"][0]["several_charts"], report["changes"]) == (1, 0)
    await done(feed.rig, "reload")
    await sent(feed.rig, person("N1", "1"))
    rows = await feed.rig.until(ended("delivered", "delivered", "held"))
    assert rows[-1].reason == "ambiguous-identity"
    assert await feed.charts() == {"PersonB": ["0001"], "Other": ["01"]}


async def test_an_accidental_second_form_of_another_channel_is_refused(feed: NormalisedFeed) -> None:
    """Two channels at one server, one of which searches as sent, would make second charts: the reload says so."""
    await feed.ran()
    folder = feed.rig.folder / "channels"
    first = orjson.loads((folder / "riverbend-adt.yaml").read_bytes())
    (folder / "second.yaml").write_bytes(orjson.dumps(first | {"channel": "second", "mapping": "plain"}))
    (feed.mappings / "plain.yaml").write_text("mapping: plain\nextends: shipped/adt\n")
    feed.rule()
    refused = (await feed.rig.ask("reload"))["error"]
    assert "searched as sent by mapping plain, and without leading zeros by channel riverbend-adt" in str(refused)
