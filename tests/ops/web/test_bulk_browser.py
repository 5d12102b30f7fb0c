"""Bulk work in Chromium: rows are ticked, tried and retried by keyboard alone; no page has a fault in any light."""

from collections.abc import AsyncIterator

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, BrowserContext, Page, expect

from engine.ops.sender.line import send_messages
from tests.chromium import CHROMIUM
from tests.ops.web.conftest import Site, message
from tests.ops.web.story import HELD, HELD_TOO, night
from tests.ops.web.test_browser import TOO_WIDE, VIOLATIONS, Window

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="needs Chromium: apt-get install chromium (CI does, see .ci/run)"
)

LAST = 9
PAGES = ("/messages?state=failed", "/messages?column=state&column=reason", "/lanes", "/overview", "/runs")


@pytest.fixture
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    """The night's engine, with a third patient who is held."""
    async with night(tmp_path_factory.mktemp("bulk-browser")) as made:
        await send_messages(*await made.rig.address(), [message("N9", "RB-22", "Dunmore^Felix", born="")])
        await made.rig.until(lambda rows: len(rows) == LAST and rows[-1].state == "held")
        await made.person("operator")
        yield made


async def opened(browser: Browser, site: Site, **options: object) -> Window:
    """Return a window that keeps its faults."""
    context: BrowserContext = await browser.new_context(**options)
    await context.add_init_script(VIOLATIONS)
    return Window(await context.new_page(), site)


async def tab_to(page: Page, role: str, name: str) -> None:
    """Press Tab until a control has the focus, which can be seen."""
    wanted = page.get_by_role(role, name=name, exact=True)  # type: ignore[arg-type]
    for _ in range(120):
        await page.keyboard.press("Tab")
        if await wanted.evaluate("element => element === document.activeElement"):
            break
    await expect(wanted).to_be_focused()
    assert await page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"


async def test_three_rows_are_retried_by_keyboard_alone(browser: Browser, site: Site) -> None:
    """Tick three, see in a dry run that they would be held again, go on all the same, and see that they were."""
    window = await opened(browser, site)
    page = window.page
    await window.log_in_by_keyboard("operator")
    await window.open("/messages?state=failed")
    for entry in (LAST, HELD_TOO, HELD):
        await tab_to(page, "checkbox", f"Entry {entry}")
        await page.keyboard.press("Space")
    await tab_to(page, "button", "Retry")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name="Retry 3 messages?")).to_be_visible()
    await expect(page.get_by_text("0 of 3 that were tried would be delivered.")).to_be_visible()
    await expect(page.get_by_role("row").filter(has_text="missing-required")).to_contain_text("3")
    await tab_to(page, "button", "Retry")
    await page.keyboard.press("Enter")
    await page.wait_for_url("**/runs/*")
    await expect(page.get_by_text("3 of 3")).to_be_visible(timeout=30_000)
    await expect(page.get_by_text("Held again:")).to_be_visible(timeout=30_000)
    assert (await site.act("replays.progress", run=1))["counts"] == {"held": 3}
    await window.check()
    await page.context.close()


async def test_ticked_rows_stay_ticked_while_messages_come_in(browser: Browser, site: Site) -> None:
    """The live list waits while a row is ticked; all shown are ticked by one box."""
    window = await opened(browser, site)
    await window.log_in("operator")
    page = window.page
    await window.open("/messages")
    box = page.get_by_role("checkbox", name=f"Entry {HELD}", exact=True)
    await box.check()
    await send_messages(*await site.rig.address(), [message("LIVE", "RB-91")])
    await site.rig.until(lambda rows: rows[-1].state == "delivered")
    await page.get_by_role("link", name="Channels").focus()
    await page.wait_for_timeout(5_000)
    await expect(box).to_be_checked()
    await box.uncheck()
    await page.get_by_role("link", name="Channels").focus()
    await expect(page.get_by_role("link", name=str(LAST + 1), exact=True)).to_be_visible(timeout=10_000)
    await page.get_by_label("All shown here").check()
    assert await page.locator("td input:checked").count() == LAST + 1
    await window.check()
    await page.context.close()


async def test_no_page_of_bulk_work_has_a_fault_at_any_width_in_any_light(browser: Browser, site: Site) -> None:
    """Wide and narrow, light and dark: nothing is too wide, no rule of axe fails, no policy is violated."""
    for width, scheme in ((1440, "light"), (390, "dark")):
        window = await opened(browser, site, viewport={"width": width, "height": 900}, color_scheme=scheme)
        await window.log_in("operator")
        page = window.page
        for path in PAGES:
            await window.open(path)
            await sound(page, width, path)
        await window.open("/lanes")
        await page.get_by_role("button", name="Dry run of a retry").click()
        await expect(page.get_by_role("heading", name="Retry 3 messages?")).to_be_visible()
        await sound(page, width, "plan")
        await page.get_by_role("button", name="Retry").click()
        await expect(page.get_by_text("Held again:")).to_be_visible(timeout=30_000)
        await sound(page, width, "run")
        await window.check()
        await page.context.close()


async def sound(page: Page, width: int, where: str) -> None:
    """Fail where a page is too wide or breaks a rule of accessibility."""
    assert await page.evaluate("document.documentElement.scrollWidth") <= width, (where, width)
    assert await page.evaluate(TOO_WIDE) == [], (where, width)
    found = await Axe().run(page)
    assert found.violations_count == 0, (where, width, found.generate_report())
