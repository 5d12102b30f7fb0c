"""The pages in a browser: what an operator does at night, with a mouse, without one, and without scripts."""

import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Page, expect

from engine.ops.sender.line import send_messages
from engine.ops.views.handbook import PAGES as PAGES_OF_HELP
from tests.chromium import CHROMIUM
from tests.flow.rig import running
from tests.ops.web.conftest import FEED, HELD, HOSTILE, STATES, Site, message, start
from tests.ops.web.person import PASSWORD

PAGES = (
    *("/overview", "/messages", f"/messages/{HELD}", f"/messages/{HOSTILE}", f"/messages/{HOSTILE}/explain"),
    *(
        f"/messages/{HELD}/edit",
        "/lanes",
        "/runs",
        "/channels",
        "/codes",
        "/duplicates",
        "/alerts",
        "/sites",
        "/reasons",
        "/playground",
        "/account",
        "/help",
        *(f"/help/{name}" for name in PAGES_OF_HELP),
    ),
)
VIOLATIONS = """
window.violations = [];
document.addEventListener('securitypolicyviolation', event => window.violations.push(
  event.violatedDirective + ' ' + event.blockedURI + ' ' + event.sourceFile));
"""

TOO_WIDE = """
[...document.querySelectorAll('.card, .notice, .alert, .chart, .pair')]
  .filter(one => one.scrollWidth > one.clientWidth + 1).map(one => one.className + ': ' + one.textContent.slice(0, 60))
"""

# The original is discarded, what waited behind it and the edited one are delivered.
ENDS = ["discarded", "delivered", "delivered"]

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="needs Chromium: apt-get install chromium (CI does, see .ci/run)"
)


class Window:
    """One browser window at the site; `faults` are errors on the console, dialogs and violations of the policy."""

    def __init__(self, page: Page, site: Site) -> None:
        self.page = page
        self.site = site
        self.faults: list[str] = []
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        page.on("dialog", self._dialog)

    async def open(self, path: str) -> None:
        """Open a page of the site."""
        answer = await self.page.goto(f"http://127.0.0.1:{self.site.port}{path}")
        assert answer is not None
        assert answer.status < 400, path

    async def log_in(self, name: str) -> None:
        """Log in at the first page."""
        await self.open("/")
        await self.page.get_by_label("Name").fill(name)
        await self.page.get_by_label("Password").fill(PASSWORD)
        await self.page.get_by_role("button", name="Log in").click()
        await self.page.wait_for_url("**/overview")

    async def log_in_by_keyboard(self, name: str) -> None:
        """Log in at the first page without a mouse: the name has the focus."""
        await self.open("/")
        await self.page.keyboard.type(name)
        await self.page.keyboard.press("Tab")
        await self.page.keyboard.type(PASSWORD)
        await self.page.keyboard.press("Enter")
        await self.page.wait_for_url("**/overview")

    async def check(self) -> None:
        """Fail where anything went wrong that an operator may not have seen."""
        violations = await self.page.evaluate("window.violations")
        assert (self.faults, violations) == ([], [])

    def _console(self, said: ConsoleMessage) -> None:
        if said.type in {"error", "warning"}:
            self.faults.append(said.text)

    async def _dialog(self, dialog: Any) -> None:
        self.faults.append(f"dialog: {dialog.message}")
        await dialog.dismiss()


@pytest.fixture(scope="module")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    """A site of this module's own: its tests mend what is held."""
    async with running(tmp_path_factory.mktemp("browser")) as rig:
        made = await start(rig)
        host, port = await rig.address()
        await send_messages(host, port, list(FEED))
        await rig.until(lambda rows: [row.state for row in rows] == [*STATES.values()])
        await made.person("operator")
        try:
            yield made
        finally:
            for person in made.people.values():
                await person.close()


async def _window(browser: Browser, site: Site, **options: Any) -> Window:
    context: BrowserContext = await browser.new_context(**options)
    await context.add_init_script(VIOLATIONS)
    return Window(await context.new_page(), site)


@pytest.fixture
async def window(browser: Browser, site: Site) -> AsyncIterator[Window]:
    """A window in which an operator is logged in."""
    opened = await _window(browser, site)
    await opened.log_in("operator")
    yield opened
    await opened.check()
    await opened.page.context.close()


@pytest.mark.smoke
async def test_hostile_names_do_nothing(window: Window) -> None:
    """Markup, quotes, escape and direction characters in PID-5 are shown as text on every page that shows them."""
    for path in (f"/messages/{HOSTILE}", f"/messages/{HOSTILE}/explain", f"/messages/{HOSTILE}/edit"):
        await window.open(path)
        await expect(window.page.locator("main")).to_contain_text("<script>alert(1)</script>")
        assert await window.page.locator("main script, main img").count() == 0


async def test_no_page_has_a_fault_at_any_width_in_any_light(browser: Browser, site: Site) -> None:
    """No error on the console and no violation; nothing is wider than its room, at 1280 and at 360 pixels."""
    for scheme, width in (("light", 1280), ("dark", 360)):
        window = await _window(browser, site, viewport={"width": width, "height": 800}, color_scheme=scheme)
        await window.log_in("operator")
        for path in PAGES:
            await window.open(path)
            assert await window.page.evaluate("document.documentElement.scrollWidth") <= width, (path, width)
            assert await window.page.evaluate(TOO_WIDE) == [], (path, width)
            await window.check()
        await window.page.context.close()


async def test_the_keyboard_is_enough(browser: Browser, site: Site) -> None:
    """Log in, skip the menu, reach a message and open it, without a mouse; where the focus is can be seen."""
    window = await _window(browser, site)
    page = window.page
    await window.log_in_by_keyboard("operator")
    await page.keyboard.press("Tab")
    await expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    await page.keyboard.press("Enter")
    wanted = page.get_by_role("link", name=str(HELD), exact=True)
    for _ in range(30):
        await page.keyboard.press("Tab")
        outline = await page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none"
        if await wanted.evaluate("element => element === document.activeElement"):
            break
    await expect(wanted).to_be_focused()
    await page.keyboard.press("Enter")
    await page.wait_for_url(f"**/messages/{HELD}")
    await window.check()
    await page.context.close()


async def test_what_happened_by_keyboard_alone(window: Window) -> None:
    """`/`, part of a number or a name, Enter: the patient's page, whose verdict comes before all else of it."""
    page = window.page
    for typed, said in (("b-2", "Held behind 2 since"), ("onerror", "Delivered: its one message is at interchange")):
        await window.open("/channels")
        await page.keyboard.press("/")
        await expect(page.locator("#find")).to_be_focused()
        await page.keyboard.type(typed)
        await page.keyboard.press("Enter")
        await page.wait_for_url("**/patient?lane=*")
        await expect(page.locator("#verdict")).to_contain_text(said)
        first = await page.locator("main .notice, main section, main table").first.get_attribute("id")
        assert first == "verdict"
        assert typed not in page.url


async def test_the_way_back_shows_nothing_after_the_log_out(browser: Browser, site: Site) -> None:
    """Back to a patient's message, or to it by its address: the log-in comes, and nothing of the page is kept."""
    window = await _window(browser, site)
    await window.log_in("operator")
    await window.open(f"/messages/{HELD}")
    await expect(window.page.locator("main")).to_contain_text("RB-2")
    await window.open("/account")
    await window.page.get_by_role("button", name="Log out").click()
    await window.page.wait_for_url("**/log-in**")
    for _ in range(2):
        await window.page.go_back()
        await expect(window.page.get_by_role("heading", name="Log in")).to_be_visible()
        assert "RB-2" not in await window.page.content()
    await window.open(f"/messages/{HELD}")
    await window.page.wait_for_url("**/log-in**")
    await window.check()
    await window.page.context.close()


async def test_every_field_has_a_label_and_every_page_a_heading(window: Window) -> None:
    """Each control has a name that is read out; each page one first heading, a main part and a title of its own."""
    nameless = """
      [...document.querySelectorAll('input:not([type=hidden]):not([hidden]), select, textarea, button')]
        .filter(one => !(one.labels && one.labels.length) && !one.textContent.trim() && !one.ariaLabel)
        .map(one => one.outerHTML)"""
    titles = set()
    for path in PAGES:
        await window.open(path)
        assert await window.page.evaluate(nameless) == [], path
        assert await window.page.locator("h1").count() == 1, path
        assert await window.page.locator("main").count() == 1, path
        titles.add(await window.page.title())
    assert len(titles) == len(PAGES)


async def test_it_works_without_scripts(browser: Browser, site: Site) -> None:
    """Log in, ask what happened to a patient, open the message and its explanation: forms and links alone."""
    context = await browser.new_context(java_script_enabled=False)
    page = await context.new_page()
    await page.goto(f"http://127.0.0.1:{site.port}/")
    await page.get_by_label("Name").fill("operator")
    await page.get_by_label("Password").fill(PASSWORD)
    await page.get_by_role("button", name="Log in").click()
    await page.get_by_placeholder("MRN or name, or a part").fill("RB-2")
    await page.get_by_role("button", name="What happened?").click()
    assert "RB-2" not in page.url
    await expect(page.locator("#verdict")).to_contain_text("Held behind 2")
    await page.get_by_role("link", name=str(HELD), exact=True).first.click()
    await expect(page.locator("main")).to_contain_text("missing-required")
    await page.get_by_role("link", name="Where each value came from").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Where each value came from")
    await context.close()


@pytest.mark.parametrize("scripts", [True, False], ids=["while typing", "without scripts"])
async def test_reasons_and_help_are_narrowed(browser: Browser, site: Site, *, scripts: bool) -> None:
    """Words in the field leave only what holds them, as they are typed; without scripts by the button."""
    window = await _window(browser, site, java_script_enabled=scripts)
    page = window.page
    await window.log_in("operator")
    for path, words, found in (("/reasons", "two charts", "possible-duplicate"), ("/help", "leading zer", "cookbook")):
        await window.open(path)
        field = page.locator("#words")
        await field.press_sequentially(words)
        if not scripts:
            await page.get_by_role("button", name="Filter").click()
        await expect(page.locator("#found [role=status]")).to_contain_text(re.compile(r"^[1-9]\d? (of|section)"))
        await expect(page.locator("#found")).to_contain_text(re.compile(found, re.IGNORECASE))
        await expect(field).to_have_value(words)
    if scripts:
        await window.check()
    await page.context.close()


async def test_new_messages_appear_by_themselves(window: Window) -> None:
    """The list of messages is live: one that comes in while it is open appears without a click."""
    await window.open("/messages")
    count = len(window.site.rig.rows())
    host, port = await window.site.rig.address()
    await send_messages(host, port, [message("LIVE1", "RB-90")])
    await expect(window.page.get_by_role("link", name=str(count + 1), exact=True)).to_be_visible(timeout=15_000)
    await expect(window.page.locator("tbody tr").first).to_contain_text("delivered", timeout=15_000)


async def test_a_chart_says_what_stands_where_it_is_pointed_at(window: Window) -> None:
    """At once and in its own room; what stood there comes back."""
    await window.open("/overview")
    chart = window.page.locator(".chart", has_text="Held and refused")
    await expect(chart.locator(".at")).to_have_text("Point at the chart to see its values.")
    await chart.locator(".points rect").last.hover()
    # With its day where the hour that is shown began on the day before.
    await expect(chart.locator(".at")).to_have_text(
        re.compile(r"^(\d+ \w+ )?\d\d:\d\d: held [\d.]+ in 1 min, refused [\d.]+ in 1 min$")
    )
    await window.page.get_by_role("heading", name="Overview").hover()
    await expect(chart.locator(".at")).to_have_text("Point at the chart to see its values.")


async def test_what_turns_senders_away_asks_before(browser: Browser, site: Site) -> None:
    """Stopping a channel asks once more, and so does draining one; who says no has changed nothing."""
    window = await _window(browser, site)
    await window.log_in("operator")
    for button in ("Stop", "Drain"):
        await window.open("/channels")
        await window.page.get_by_role("button", name=button).click()
    assert [fault.partition("?")[0] for fault in window.faults] == ["dialog: Stop this channel"] * 2
    await window.open("/channels")
    await expect(window.page.locator("main")).to_contain_text("listening")
    await window.page.context.close()


async def test_who_pauses_a_destination_may_say_why(window: Window) -> None:
    """The reason is asked for where the button is, and stands on the first page for whoever comes next."""
    page = window.page
    await window.open("/channels")
    await page.locator("summary", has_text="Pause").click()
    await page.get_by_label("Why?").fill("upgrade until ten")
    await page.get_by_role("button", name="Pause").click()
    await page.wait_for_url("**/channels?said=channel")
    await window.open("/overview")
    await expect(page.locator("main")).to_contain_text("interchange is paused: somebody paused it.")
    await expect(page.locator(".trouble")).to_contain_text("upgrade until ten")
    await window.open("/channels")
    await page.get_by_role("button", name="Resume").click()
    await page.wait_for_url("**/channels?said=channel")
    await expect(page.locator("main")).to_contain_text("ready")


async def test_a_live_list_waits_for_whoever_works_in_it(window: Window) -> None:
    """A link that has the focus keeps it while messages come in; once it is left, the list catches up."""
    page, rig = window.page, window.site.rig
    await window.open("/messages")
    count = len(rig.rows())
    focused = page.get_by_role("link", name=str(count), exact=True)
    await focused.focus()
    await send_messages(*await rig.address(), [message("LIVE2", "RB-91")])
    await rig.until(lambda rows: len(rows) > count and rows[count].state == "delivered")
    newest = page.get_by_role("link", name=str(count + 1), exact=True)
    await page.wait_for_timeout(5_000)
    await expect(focused).to_be_focused()
    await expect(newest).to_have_count(0)
    await page.get_by_role("link", name="Channels").focus()
    await expect(newest).to_be_visible(timeout=10_000)


async def test_a_live_list_rests_while_nobody_looks(window: Window) -> None:
    """In a hidden tab the list asks for nothing, so that many tabs do not use up the connections; shown, it goes on."""
    page, rig = window.page, window.site.rig
    await window.open("/messages")
    await expect(page.locator("[sse-connect]")).to_have_count(1)
    hide = "Object.defineProperty(document, 'hidden', {value: %s, configurable: true}); "
    tell = "document.dispatchEvent(new Event('visibilitychange'))"
    await page.wait_for_timeout(1_000)
    await page.evaluate(hide % "true" + tell)
    await expect(page.locator("[data-resting]")).to_have_count(1)
    count = len(rig.rows())
    await send_messages(*await rig.address(), [message("LIVE3", "RB-92")])
    newest = page.get_by_role("link", name=str(count + 1), exact=True)
    await page.wait_for_timeout(3_000)
    await expect(newest).to_have_count(0)
    await page.evaluate(hide % "false" + tell)
    await expect(newest).to_be_visible(timeout=10_000)


async def test_a_failed_message_is_found_understood_mended_and_delivered(window: Window) -> None:
    """From the first page: what is held and why; edited, rehearsed, stored, delivered; who waited goes on."""
    page, rig = window.page, window.site.rig
    first = len(rig.rows()) + 1
    await send_messages(*await rig.address(), [message("W1", "RB-70", born=""), message("W2", "RB-70", born="")])
    await rig.until(lambda rows: [row.state for row in rows[first - 1 :]] == ["held", "waiting"])
    await window.open("/overview")
    await expect(page.get_by_role("heading", name="Held")).to_be_visible()
    await page.get_by_role("link", name=str(first), exact=True).click()
    await expect(page.locator("main")).to_contain_text("missing-required")
    await expect(page.locator("main")).to_contain_text("1 message of 1 patient wait")
    await page.get_by_role("link", name="Edit and replay").click()
    text = await page.get_by_label("Message").input_value()
    assert "PID|1||RB-70^^^RVB^MR||Quintero^Marisol|||F" in text
    await page.get_by_label("Message").fill(text.replace("Marisol|||F", "Marisol||19840229|F"))
    await page.get_by_label("Reason for the edit").fill("birth date from the ward")
    await page.get_by_label("Discard the original").check()
    await page.get_by_role("button", name="Dry run").click()
    await expect(page.get_by_role("heading", name="What would happen")).to_be_visible()
    await expect(page.locator("main")).to_contain_text("1984-02-29")
    assert all(row.state != "discarded" for row in rig.rows())
    await page.get_by_role("button", name="Store and deliver").click()
    await page.wait_for_url(lambda url: url.partition("?")[0].rpartition("/")[2].isdigit())
    number = int(page.url.partition("?")[0].rpartition("/")[2])
    assert number > first
    await rig.until(lambda rows: [rows[at - 1].state for at in (first, first + 1, number)] == ENDS)
    await window.open(f"/messages/{number}")
    await expect(page.locator("main")).to_contain_text("Made from")
    await expect(page.locator("main")).to_contain_text("PID-7 19840229")
    await expect(page.locator(".head .state").first).to_have_text("delivered")
    (patient,) = await rig.numbered("RB-70")
    assert patient["birthDate"] == "1984-02-29"
