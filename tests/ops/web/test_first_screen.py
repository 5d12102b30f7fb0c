"""What the first screen says when something is wrong: a table of what happens at night, in a browser, until it is over.

Each row runs an engine of its own; an alert is heard at a webhook as it opens and as it clears.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import trustme
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, Page, expect

from engine.config.alerting import Alerting
from engine.ops.sender.line import send_messages
from engine.ops.web.stream import EVERY_SECONDS
from engine.pipeline.maintenance.watch import LOOK_SECONDS
from tests.chromium import CHROMIUM
from tests.flow.rig import Rig, channel_file, running, write
from tests.ops.background.test_webhook import Receiver, receiving
from tests.ops.web.conftest import message, start
from tests.ops.web.test_browser import TOO_WIDE, VIOLATIONS, Window

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium"),
    # Destinations, senders and engines are broken off here. Once in some whole runs the server's end of such a line was
    # still open when the collector came by; which one is not known.
    pytest.mark.filterwarnings(
        "ignore:Exception ignored in. <function _SelectorTransport:pytest.PytestUnraisableExceptionWarning",
        r"ignore:Exception ignored in. <socket\.socket:pytest.PytestUnraisableExceptionWarning",
    ),
]

SCREENS = (
    pytest.param({"viewport": {"width": 1440, "height": 900}}, id="desk"),
    pytest.param({"viewport": {"width": 1440, "height": 900}, "color_scheme": "dark"}, id="desk in the dark"),
    pytest.param({"viewport": {"width": 390, "height": 844}}, id="telephone"),
)
_HEAD = "MSH|^~\\&|REG|RVB|X|Y|20250701101500||ADT^{event}|{id}|P|2.5.1\rEVN||20250701101500\r"

Change = Callable[[Rig, AsyncExitStack], Awaitable[None]]


def merge(control_id: str, gone: str, survivor: str) -> bytes:
    """Return an A40 that merges one number into another."""
    head = _HEAD.format(event="A40^ADT_A39", id=control_id)
    return f"{head}PID|1||{survivor}^^^RVB^MR||Quintero^Marisol||19840229|F\rMRG|{gone}^^^RVB^MR\r".encode()


async def send(rig: Rig, *messages: bytes) -> None:
    """Send messages on one connection, which is closed afterwards."""
    await send_messages(*await rig.address(), list(messages))


async def set_limits(rig: Rig, **limits: Any) -> None:
    """Write the limits of alerts anew and have them read."""
    file = rig.folder / "channels" / "alerts.yaml"
    write(file, LIMITS | {"webhook": {"url": (rig.folder / "hook").read_text()}} | limits)
    if rig.engine.alive:
        assert "done" in await rig.ask("reload")


async def nothing(_rig: Rig, _stack: AsyncExitStack) -> None:
    """It is so from the start, or over by itself."""


async def kill_the_destination(rig: Rig, _stack: AsyncExitStack) -> None:
    """Nobody listens there any more, in the middle of a feed."""
    await send(rig, *(message(f"B{number}", f"RB-{number}") for number in range(20)))
    await rig.proxy.close()
    await send(rig, *(message(f"D{number}", f"RB-{number}") for number in range(40, 61)))


async def revive_the_destination(rig: Rig, _stack: AsyncExitStack) -> None:
    """It listens again."""
    await rig.proxy.open()


async def stop_the_sender(rig: Rig, _stack: AsyncExitStack) -> None:
    """It has sent, and hangs up."""
    await send(rig, message("S1", "RB-1"))


async def connect_the_sender(rig: Rig, stack: AsyncExitStack) -> None:
    """It connects again, and stays."""
    _reader, writer = await asyncio.open_connection(*await rig.address())
    stack.callback(writer.close)


async def fill_the_disk(rig: Rig, _stack: AsyncExitStack) -> None:
    """What is free is less than what is wanted free."""
    await set_limits(rig, disk_reserves=1_000_000)


async def free_the_disk(rig: Rig, _stack: AsyncExitStack) -> None:
    """What is free is enough again."""
    await set_limits(rig)


async def hold_fifty(rig: Rig, _stack: AsyncExitStack) -> None:
    """The same failure holds fifty patients, after some who were delivered."""
    await send(rig, *(message(f"G{number}", f"RB-{number}") for number in range(5)))
    await rig.drained()
    await send(rig, *(message(f"H{number}", f"RB-{number}", born="") for number in range(100, 150)))


async def discard_fifty(rig: Rig, _stack: AsyncExitStack) -> None:
    """Somebody resumes the destination, and discards what is held."""
    await rig.ask("destinations.resume", destination="interchange")
    for row in rig.rows():
        if row.state == "held":
            assert "done" in await rig.ask("messages.discard", entry=row.seq, reason="a test")


async def pause_the_destination(rig: Rig, _stack: AsyncExitStack) -> None:
    """Somebody pauses it, and says why."""
    assert "done" in await rig.ask("destinations.pause", destination="interchange", reason="upgrade until ten")


async def resume_the_destination(rig: Rig, _stack: AsyncExitStack) -> None:
    """It is over."""
    assert "done" in await rig.ask("destinations.resume", destination="interchange")


async def merge_some(rig: Rig, _stack: AsyncExitStack) -> None:
    """One source merges half as many as it may."""
    await send(rig, *(message(f"P{number}", f"RB-{number}") for number in range(1, 7)))
    await send(rig, *(merge(f"M{number}", f"RB-{number + 1}", f"RB-{number}") for number in (1, 3, 5)))


async def renew_the_certificate(rig: Rig, _stack: AsyncExitStack) -> None:
    """A valid file stands in its place."""
    _certificate(rig.folder, days=90)


def _certificate(folder: Path, days: int) -> dict[str, Any]:
    """Write a certificate that ends in so many days, and return where a listener uses it."""
    issued = trustme.CA().issue_cert("127.0.0.1", not_after=datetime.now(UTC) + timedelta(days=days))
    certificate, key = folder / "listener.pem", folder / "listener.key"
    issued.cert_chain_pems[0].write_to_path(certificate)
    issued.private_key_pem.write_to_path(key)
    key.chmod(0o600)
    tls = {"certificate": str(certificate), "key": str(key)}
    return {"listen": {"mllp": {"host": "127.0.0.1", "port": 0, "tls": tls}}}


@dataclass(frozen=True)
class Night:
    """One thing that happens: the alert of it, its sentence, what the first screen says too, how it comes and goes."""

    alert: str
    sentence: str
    says: tuple[str, ...] = ()
    comes: Change = nothing
    goes: Change = nothing
    limits: Mapping[str, Any] = field(default_factory=dict)
    channel: Callable[[Path], Mapping[str, Any]] = lambda _folder: {}


# What 15 minutes of failures would open beside what is meant, and who has not sent yet.
LIMITS = {"error_ratio": 1, "no_sender_minutes": 0, "no_traffic_minutes": 0}
NIGHTS = (
    Night(
        "destination-down",
        "interchange does not answer: connection refused.",
        ("Since ", " waiting, ", " try", "Retry now"),
        kill_the_destination,
        revive_the_destination,
        {"destination_down_seconds": 1},
    ),
    Night(
        "no-sender",
        "No sender is connected to riverbend-adt: no sender for ",
        comes=stop_the_sender,
        goes=connect_the_sender,
        limits={"no_sender_minutes": 0.02},
    ),
    Night("disk-reserve", "The disk is nearly full: ", (" MiB free, reserve ",), fill_the_disk, free_the_disk),
    Night(
        "hold-storm",
        "interchange is paused: the same failure held 50 patients (missing-required).",
        ("Since ", "Resume"),
        hold_fifty,
        discard_fifty,
    ),
    Night(
        "certificate-expired",
        "The certificate listener.pem of riverbend-adt ended on ",
        goes=renew_the_certificate,
        channel=lambda folder: _certificate(folder, days=-1),
    ),
    Night(
        "merge-burst",
        "riverbend-adt merges more patients than usual: 3 of 4 merges of one source.",
        comes=merge_some,
        channel=lambda _folder: {"merge_limit": {"merges": 4, "minutes": 0.75}},
    ),
    Night(
        "destination-paused",
        "interchange is paused: somebody paused it.",
        ("Since ", "upgrade until ten", "Resume"),
        pause_the_destination,
        resume_the_destination,
    ),
)


@pytest.fixture
async def hook() -> AsyncIterator[Receiver]:
    """What hears of alerts."""
    async with receiving() as found:
        yield found


async def heard(hook: Receiver, event: str, alert: str) -> None:
    """Wait until the webhook has heard of an alert."""
    async with asyncio.timeout(100), hook.heard:
        await hook.heard.wait_for(
            lambda: any((body["event"], body["kind"]) == (event, alert) for body in hook.bodies),
        )


@pytest.mark.parametrize("night", NIGHTS, ids=lambda night: night.alert)
async def test_the_first_screen_says_what_is_wrong_and_that_it_is_over(
    night: Night, browser: Browser, hook: Receiver, tmp_path: Path
) -> None:
    """First on the page without scrolling, on desk and telephone, without a fault to axe; gone when it is over."""
    async with running(tmp_path) as rig, AsyncExitStack() as stack:
        (tmp_path / "hook").write_text(hook.url)
        write(tmp_path / "channels" / "riverbend-adt.yaml", channel_file(rig.proxy.url) | night.channel(tmp_path))
        await set_limits(rig, **night.limits)
        site = await start(rig)
        await site.person("operator")
        window = await _open(browser, site, SCREENS[0].values[0])
        await night.comes(rig, stack)
        await heard(hook, "opened", night.alert)
        for place, screen in enumerate(SCREENS):
            page = window.page if not place else (await _open(browser, site, screen.values[0])).page
            await _says(page, night)
            if not place:
                await _one_truth(rig, hook, page, night)
            await page.screenshot(path=tmp_path / f"{night.alert}-{place}.png")
            found = await Axe().run(page)
            assert found.violations_count == 0, found.generate_report()
            assert await page.evaluate(TOO_WIDE) == []
            await expect(page.locator("details.alert", has_text=night.sentence).first).to_be_visible()
        await night.goes(rig, stack)
        await heard(hook, "cleared", night.alert)
        # By itself, on a page that stays open; nobody loads it anew.
        await expect(window.page.locator("main")).to_contain_text("No open alerts", timeout=60_000)
        await expect(window.page.locator("main .bad")).to_have_count(0, timeout=60_000)
        await window.check()
        for context in browser.contexts:
            await context.close()
        await asyncio.gather(*(person.close() for person in site.people.values()))


async def _open(browser: Browser, site: Any, options: Mapping[str, Any]) -> Window:
    """Return a window at the first page, in which the operator is logged in."""
    context = await browser.new_context(**options)
    await context.add_init_script(VIOLATIONS)
    window = Window(await context.new_page(), site)
    await window.log_in("operator")
    return window


async def _says(page: Page, night: Night) -> None:
    """Check that the first thing on the page says what is wrong, whole within the window before anybody scrolls."""
    first = page.locator(".trouble").first
    for words in (night.sentence, *night.says):
        await expect(first).to_contain_text(words, timeout=20_000)
    await expect(first).to_be_in_viewport(ratio=1)
    assert await page.evaluate("[scrollY, document.documentElement.scrollWidth <= innerWidth]") == [0, True]


async def _one_truth(rig: Rig, hook: Receiver, page: Page, night: Night) -> None:
    """The page, the status, the alert and the webhook say the same sentence, and that it is urgent."""
    status = (await rig.ask("status.show"))["done"]
    (alert,) = [one for one in (await rig.ask("alerts.list"))["done"] if one["kind"] == night.alert]
    posted = next(body for body in hook.bodies if (body["event"], body["kind"]) == ("opened", night.alert))
    first = status["incidents"][0]
    assert first["alert"] == alert["id"]
    assert {status["severity"], alert["severity"], posted["severity"]} == {"urgent"}
    assert status["sentence"] == first["sentence"]
    for said in (first["sentence"], alert["sentence"], posted["sentence"]):
        assert said.startswith(night.sentence)
    await expect(page.locator(".trouble b").first).to_contain_text(night.sentence)


def test_a_destination_that_is_down_is_an_alert_within_forty_seconds() -> None:
    """Its limit, the next look, and the next time that a page is told of it."""
    assert Alerting().destination_down_seconds + LOOK_SECONDS + EVERY_SECONDS <= 40
