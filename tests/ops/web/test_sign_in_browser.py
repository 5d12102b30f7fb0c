"""Sessions as somebody at a browser meets them: two tabs, an end, the password again, one-time codes, a lockout."""

import re
import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import closing

import pyotp
import pytest
from playwright.async_api import Browser, Page, expect

from engine.ops.sender.line import send_messages
from tests.chromium import CHROMIUM
from tests.ops.web.conftest import Site, message
from tests.ops.web.person import PASSWORD
from tests.ops.web.test_browser import VIOLATIONS, Window

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="needs Chromium: apt-get install chromium (CI does, see .ci/run)"
)
MICROS = 1_000_000


@pytest.fixture
async def window(browser: Browser, site: Site) -> AsyncIterator[Window]:
    """A window of a browser in which nobody is logged in."""
    context = await browser.new_context()
    await context.add_init_script(VIOLATIONS)
    yield Window(await context.new_page(), site)
    await context.close()


def age(site: Site, account: str, column: str, seconds: int) -> None:
    """Let something of an account's sessions be longer ago."""
    change = f"UPDATE session SET {column} = {column} - ? WHERE account = ?"  # noqa: S608 - a name of this file
    with closing(sqlite3.connect(site.rig.folder / "data" / "journal.db", timeout=20)) as journal, journal:
        journal.execute(change, (seconds * MICROS, account))


async def enter(page: Page, name: str, password: str = PASSWORD, code: str = "") -> None:
    """Fill the log-in form and send it."""
    await page.get_by_label("Name").fill(name)
    await page.get_by_label("Password").fill(password)
    await page.get_by_label("One-time code").fill(code)
    await page.get_by_role("button", name="Log in").click()


async def test_of_two_tabs_the_other_says_that_the_session_has_ended(window: Window) -> None:
    """Its live part says so, and the way back is the page that it was."""
    await window.site.person("operator", "two-tabs")
    await window.log_in("two-tabs")
    other = await window.page.context.new_page()
    await other.goto(f"http://127.0.0.1:{window.site.port}/messages")
    await window.page.get_by_role("button", name="Log out").click()
    await expect(window.page.locator("h1")).to_have_text("Log in")
    await expect(other.get_by_role("alert")).to_contain_text("Your session has ended.", timeout=20_000)
    await other.get_by_role("link", name="Log in again").click()
    await enter(other, "two-tabs")
    await other.wait_for_url("**/messages")


async def test_a_session_that_ended_leads_back_to_where_one_was(window: Window) -> None:
    """After fifteen minutes without a click the log-in comes, and then the page that was asked for."""
    await window.site.person("operator", "sleepy")
    await window.log_in("sleepy")
    age(window.site, "sleepy", "seen_at", 16 * 60)
    await window.page.get_by_role("navigation", name="Pages").get_by_role("link", name="Channels").click()
    await expect(window.page.locator("h1")).to_have_text("Log in")
    await enter(window.page, "sleepy")
    await window.page.wait_for_url("**/channels")


async def test_what_is_grave_asks_for_the_password_again_and_keeps_what_was_typed(window: Window) -> None:
    """A discard long after the log-in: the form, a wrong password, the right one, done."""
    site = window.site
    await site.person("operator", "careful")
    await send_messages(*await site.rig.address(), [message("STEP", "RB-STEP", born="")])
    await site.rig.until(lambda rows: rows[-1].state == "held")
    entry = len(site.rig.rows())
    await window.log_in("careful")
    age(site, "careful", "confirmed_at", 600)
    await window.open(f"/messages/{entry}")
    page = window.page
    await page.locator("summary", has_text="Discard").click()
    await page.get_by_label("Reason for discarding").fill("sent by mistake")
    await page.get_by_role("button", name="Discard permanently").click()
    await expect(page.locator("h1")).to_have_text("Confirm your password")
    for password in ("wrong", PASSWORD):
        await page.get_by_label("Password").fill(password)
        await page.get_by_role("button", name="Resume").click()
    await page.wait_for_url(f"**/messages/{entry}?said=discarded")
    await expect(page.locator("main")).to_contain_text("sent by mistake")


async def test_one_time_codes_are_set_up_and_asked_for(window: Window) -> None:
    """The key as it is shown makes the code; from the next log-in on, none without it."""
    await window.site.person("operator", "twofold")
    await window.log_in("twofold")
    page = window.page
    await window.open("/account")
    await page.get_by_role("button", name=re.compile("one-time codes", re.IGNORECASE)).click()
    await expect(page.locator("h1")).to_have_text("Set up one-time codes")
    secret = "".join((await page.locator("dd.mono").inner_text()).split())
    now = time.time()
    await page.get_by_label("Six digits").fill(pyotp.TOTP(secret).at(int(now)))
    await page.get_by_role("button", name="Turn on one-time codes").click()
    await page.wait_for_url("**/account*")
    await page.get_by_role("button", name="Log out").click()
    await enter(page, "twofold")
    await expect(page.get_by_role("alert")).to_be_visible()
    await enter(page, "twofold", code=pyotp.TOTP(secret).at(int(now) + 30))
    await page.wait_for_url("**/overview")


async def test_a_lockout_says_how_long_to_wait(window: Window) -> None:
    """After five wrong passwords the sixth attempt waits; the name stays in its field."""
    await window.site.person("operator", "locked")
    page = window.page
    await window.open("/log-in")
    for _ in range(6):
        await enter(page, "locked", "wrong wrong wrong wrong")
        await expect(page.get_by_role("alert")).to_be_visible()
    await expect(page.get_by_role("alert")).to_contain_text(re.compile(r"Too many attempts.* Wait \d+ seconds"))
    await expect(page.get_by_label("Name")).to_have_value("locked")
