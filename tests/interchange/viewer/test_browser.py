"""The chart pages in Chromium: from the sign-in to each part of a chart, on a telephone and in the dark."""

from base64 import b64encode
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, Page, expect

from engine.clock import now
from engine.interchange.orders.compendium.files.read import load_file
from engine.interchange.orders.compendium.load import load
from tests.chromium import CHROMIUM, chromium
from tests.interchange.browser import PASSWORD
from tests.interchange.chart import put, to
from tests.interchange.chart_api.charts import concept, lipids
from tests.interchange.kit import Inside, record_number
from tests.interchange.viewer.people import pages
from tests.interchange.viewer.test_ordering import SAMPLE

VIOLATIONS = """
window.violations = [];
document.addEventListener('securitypolicyviolation', event => window.violations.push(
  event.violatedDirective + ' ' + event.blockedURI));
"""
TOO_WIDE = """
[...document.querySelectorAll('body, main, .card, .banner, .page, .tabs')]
  .filter(one => one.scrollWidth > one.clientWidth + 1).map(one => one.className + ': ' + one.textContent.slice(0, 60))
"""
TABS = ("Summary", "Results", "Visits", "Documents", "Orders")
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="needs Chromium: apt-get install chromium (CI does, see .ci/run)"
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inside]:
    """A service whose chart pages are open, with one full chart."""
    with pages(tmp_path_factory.mktemp("chromium")) as found:
        long = "Wolfeschlegelsteinhausenbergerdorff" * 2
        patient = found.create(name=[{"family": long, "given": ["Marisol"]}], identifier=[record_number("chromium-1")])[
            "id"
        ]
        for day in range(1, 13):
            lipids(found, patient, f"2025-01-{day:02}", 180 + day)
        put(found, "AllergyIntolerance", patient, code={"text": "x" * 90}, criticality="high")
        put(found, "Condition", patient, code=concept("195967001", "Asthma (disorder)", "http://snomed.info/sct"))
        put(found, "Encounter", patient, period={"start": "2025-07-01"}, reasonCode=[{"text": "y" * 90}])
        text = {"contentType": "text/plain", "data": b64encode(b"z" * 300).decode(), "title": "Letter"}
        content = [{"attachment": one} for one in (text, {"contentType": "image/png", "data": PNG})]
        put(found, "DocumentReference", patient, content=content)
        load(found.app.service.configuration, found.database, "riverbend", load_file(SAMPLE), now, lambda *_: None)
        put(found, "RequestGroup", patient, action=[{"title": "x"}], author=to(put(found, "Practitioner")))
        yield found


@pytest.fixture(scope="module")
async def browser() -> AsyncIterator[Browser]:
    """Debian's Chromium."""
    async with chromium() as opened:
        yield opened


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"viewport": {"width": 1280, "height": 800}}, id="desk"),
        pytest.param({"viewport": {"width": 360, "height": 740}, "color_scheme": "dark"}, id="telephone in the dark"),
        pytest.param({"java_script_enabled": False}, id="without scripts"),
    ],
)
async def test_from_the_sign_in_to_the_chart(browser: Browser, site: Inside, options: dict[str, Any]) -> None:
    """Everything is reached by links and forms; nothing is too wide, refused by the policy, or a fault to axe."""
    context = await browser.new_context(**options)
    await context.add_init_script(VIOLATIONS)
    page = await context.new_page()
    faults: list[str] = []
    page.on("console", lambda said: faults.append(said.text) if said.type in {"error", "warning"} else None)
    await page.goto(f"{site.url}/")
    await page.get_by_role("link", name="Open the chart").click()
    await page.get_by_role("link", name="Sign in").click()
    await page.get_by_label("User name").fill("dr.osei")
    await page.get_by_label("Password").fill(PASSWORD)
    await page.get_by_role("button", name="Sign in and allow").click()
    await page.get_by_label("Record number").fill("chromium-1")
    await page.get_by_role("button", name="Search").click()
    await expect(page.get_by_role("status")).to_contain_text("1 patient matches")
    assert "chromium-1" not in page.url
    await _fits(page, options)
    await page.get_by_role("link", name="Wolfeschlegel").click()
    for name in TABS:
        await page.get_by_role("link", name=name, exact=True).click()
        await expect(page.get_by_role("link", name=name, exact=True)).to_have_attribute("aria-current", "page")
        await expect(page).to_have_title(f"{name} · Clinical Data Interchange Service")
        await _fits(page, options)
    await page.get_by_role("link", name="Documents").click()
    await page.get_by_role("link", name="Letter").click()
    await expect(page.get_by_role("img")).to_be_visible()
    await _fits(page, options)
    await page.get_by_role("link", name="Orders").click()
    await page.get_by_role("link", name="Place an order").click()
    await page.get_by_role("link", name="Cedar Valley Reference Laboratory").click()
    await _fits(page, options)
    for title in ("Lipid panel", "Culture, urine", "Maternal serum screen, four markers"):
        await page.get_by_label(title).check()
    await page.get_by_role("button", name="Continue").click()
    await _fits(page, options)
    await page.get_by_role("button", name="Place the order").click()
    await expect(page.get_by_role("alert")).to_contain_text("please answer")
    await _fits(page, options)
    await page.get_by_role("button", name="Sign out").click()
    await expect(page.get_by_role("link", name="Sign in")).to_be_visible()
    assert faults == []
    await context.close()


async def signed_in(page: Page, site: Inside, number: str = "chromium-1") -> str:
    """Sign in, find the patient, and return the address of the chart."""
    await page.goto(f"{site.url}/chart/sign-in")
    await page.get_by_label("User name").fill("dr.osei")
    await page.get_by_label("Password").fill(PASSWORD)
    await page.get_by_role("button", name="Sign in and allow").click()
    await page.get_by_label("Record number").fill(number)
    await page.get_by_role("button", name="Search").click()
    await page.get_by_role("link", name="Wolfeschlegel").click()
    return page.url


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
async def test_the_flowsheet(browser: Browser, site: Inside, width: int, scheme: Any) -> None:
    """It scrolls in a region of its own, reached by the keyboard, and the tests stay in sight."""
    options: dict[str, Any] = {"viewport": {"width": width, "height": 800}, "color_scheme": scheme}
    context = await browser.new_context(**options)
    await context.add_init_script(VIOLATIONS)
    page = await context.new_page()
    await page.goto(f"{await signed_in(page, site)}/results?test=lipid")
    await expect(page.get_by_role("status")).to_contain_text("12 of 12 reports match: test lipid")
    await expect(page.get_by_role("navigation", name="Pages of times")).to_contain_text("Times 1 to 8 of 12")
    await _fits(page, options)
    region = page.get_by_role("region", name="Flowsheet")
    await region.focus()
    await region.evaluate("region => region.scrollTo(150, 0)")
    tests = region.get_by_role("rowheader", name="Cholesterol")
    seen, frame = await tests.bounding_box(), await region.bounding_box()
    assert seen is not None
    assert frame is not None
    assert abs(seen["x"] - frame["x"]) < 2
    await page.get_by_role("link", name="Older times").click()
    await expect(page.get_by_role("navigation", name="Pages of times")).to_contain_text("Times 9 to 12 of 12")
    await context.close()


async def test_a_code_by_the_keyboard(browser: Browser, site: Inside) -> None:
    """The full name and the code of a problem open by Enter on its name."""
    page = await (await browser.new_context()).new_page()
    await signed_in(page, site)
    problem = page.get_by_role("region", name="Problems").locator("summary")
    detail = page.get_by_text("Asthma (disorder) · SNOMED CT 195967001")
    await expect(detail).to_be_hidden()
    await problem.focus()
    await page.keyboard.press("Enter")
    await expect(detail).to_be_visible()
    await page.context.close()


@pytest.mark.parametrize("tab", ["", "results", "visits", "documents", "orders"])
async def test_on_paper(browser: Browser, site: Inside, tab: str) -> None:
    """Paper has who, born when, the MRN and the time of printing, no navigation, and nothing that is cut off."""
    options: dict[str, Any] = {"viewport": {"width": 1280, "height": 800}, "color_scheme": "dark"}
    context = await browser.new_context(**options)
    await context.add_init_script(VIOLATIONS)
    page = await context.new_page()
    await page.goto(f"{await signed_in(page, site)}/{tab}".rstrip("/"))
    for name in ("", "Print"):
        if name:
            await page.get_by_role("link", name=name, exact=True).click()
            await _fits(page, options)
        await page.emulate_media(media="print")
        banner = page.get_by_role("region", name="Patient")
        for part in ("Wolfeschlegel", "born 1984-02-29", "chromium-1", "printed", "by Ama Osei"):
            await expect(banner).to_contain_text(part)
        await expect(banner.get_by_text("printed")).to_be_visible()
        await expect(banner).to_have_css("display", "table-header-group")  # repeated on each sheet
        for hidden in ("header.top", "nav.tabs", "form", ".screen", ".codes"):
            for one in await page.locator(hidden).all():
                await expect(one).to_be_hidden()
        assert await page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        await page.emulate_media(media="screen")
    await page.get_by_role("link", name="Back to the chart").click()
    await expect(page.get_by_role("navigation", name="Chart")).to_be_visible()
    await context.close()


async def _fits(page: Page, options: dict[str, Any]) -> None:
    await page.wait_for_load_state()  # without its style sheet nothing fits
    if options.get("java_script_enabled", True):
        assert await page.evaluate("window.violations") == []
        assert await page.evaluate(TOO_WIDE) == [], page.url
        found = await Axe().run(page)
        assert found.violations_count == 0, found.generate_report()
