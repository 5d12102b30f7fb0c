"""The playground in Chromium: which line filled a field, an edit with completion and mistakes, by mouse and by keys."""

from collections.abc import AsyncIterator

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, BrowserContext, Locator, Page, expect

from engine.ops.sender.line import send_messages
from tests.chromium import CHROMIUM
from tests.flow.rig import running
from tests.ops.playground.bench_site import MESSAGE, PATIENT
from tests.ops.playground.bench_site import site as mapping_site
from tests.ops.web.conftest import FEED, STATES, Site, start
from tests.ops.web.test_browser import TOO_WIDE, VIOLATIONS, Window

# For the first try, which starts a process on a busy machine.
SLOW = 60_000
WIDE = {"width": 1440, "height": 900}

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="needs Chromium: apt-get install chromium (CI does, see .ci/run)"
)


@pytest.fixture(scope="module")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    """An engine with mapping files of its own, an operator and an author."""
    folder = tmp_path_factory.mktemp("playground-browser")
    async with running(folder) as rig:
        mapping_site(folder / "mappings")
        rig.engine.arguments = (*rig.engine.arguments, "--mappings", "mappings", "--publish-mappings")
        made = await start(rig)
        await send_messages(*await rig.address(), list(FEED))
        await rig.until(lambda rows: [row.state for row in rows] == [*STATES.values()])
        for role in ("operator", "author"):
            await made.person(role)
        await made.act("messages.share", entry=1)
        try:
            yield made
        finally:
            for person in made.people.values():
                await person.close()


async def _window(browser: Browser, site: Site, name: str = "author", **options: object) -> Window:
    context: BrowserContext = await browser.new_context(**{"viewport": WIDE, **options})  # type: ignore[arg-type]
    await context.add_init_script(VIOLATIONS)
    window = Window(await context.new_page(), site)
    await window.log_in(name)
    return window


async def _tried(page: Page) -> None:
    """Paste a message and try it."""
    await page.get_by_label("HL7 message").fill(MESSAGE)
    await page.get_by_role("button", name="Try", exact=True).click()
    await expect(page.get_by_role("heading", name="FHIR", exact=True)).to_be_visible(timeout=SLOW)


def _chosen(page: Page) -> Locator:
    return page.locator("#chosen")


async def test_which_line_filled_a_field_takes_three_clicks(browser: Browser, site: Site) -> None:
    """The menu, Try, the value: its rule with file and line, its field lit; one more opens the file at that line."""
    window = await _window(browser, site)
    page = window.page
    await page.get_by_role("link", name="Mapping playground").click()  # 1
    await _tried(page)  # 2
    await page.get_by_role("link", name='"1984-02-29"').click()  # 3
    await expect(_chosen(page)).to_contain_text("PID-7 | date")
    await expect(_chosen(page).get_by_role("link", name="resources/patient.yaml:4")).to_be_visible()
    await expect(page.locator(".tree .lit")).to_have_text("19840229")
    await _chosen(page).get_by_role("link", name="resources/patient.yaml:4").click()  # 4
    await expect(page.locator(".cm-line.lit")).to_have_text("  birthDate: PID-7 | date", timeout=SLOW)
    await window.check()
    await page.context.close()


async def test_a_field_shows_what_reads_it(browser: Browser, site: Site) -> None:
    """The elements of PID-5 are lit with their values, no other field is, and each is told with its line."""
    window = await _window(browser, site)
    page = window.page
    await window.open("/playground")
    await _tried(page)
    await page.get_by_role("link", name="PID-5", exact=True).click()
    await expect(_chosen(page)).to_contain_text("PID-5 is read by")
    await expect(_chosen(page)).to_contain_text("Patient.name[1].family by XPN.1 shipped/datatypes/xpn.yaml:12")
    lit = await page.locator(".json .lit").all_text_contents()
    assert {'"Quintero"', '"Marisol"', '"Quint"'} <= set(lit)
    assert '"1984-02-29"' not in lit
    assert await page.locator('.tree .lit:not([data-source^="PID-5"])').count() == 0
    await window.check()
    await page.context.close()


async def test_an_edit_completes_shows_its_mistakes_and_is_tried(browser: Browser, site: Site) -> None:
    """Keys alone: a mistake is marked at its line, completion knows the element, the try has it; the disk has not."""
    window = await _window(browser, site)
    page = window.page
    await window.open("/playground")
    await page.get_by_label("File", exact=True).select_option("resources/patient.yaml")
    await page.get_by_role("button", name="Open", exact=True).click()
    editor = page.get_by_role("textbox", name="Mapping file resources/patient.yaml")
    await editor.focus()
    await page.keyboard.press("Control+End")
    await page.keyboard.type("  brithDate: PID-7")
    await expect(page.locator(".cm-lintRange-error")).to_have_text("brithDate", timeout=SLOW)
    for _ in "brithDate: PID-7":
        await page.keyboard.press("Backspace")
    await page.keyboard.type("marit")
    await expect(page.get_by_role("option", name="maritalStatus")).to_be_visible(timeout=SLOW)
    await page.wait_for_timeout(150)  # what is chosen too soon after it appeared is taken for typing
    await page.keyboard.press("Enter")
    await page.keyboard.type("PID-8 | c")
    await expect(page.get_by_role("option", name="coded", exact=False).first).to_be_visible(timeout=SLOW)
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("group", name="At the cursor")).to_contain_text("Go to shipped/", timeout=SLOW)
    for _ in "PID-8 | c":
        await page.keyboard.press("Backspace")
    await page.keyboard.type("{text: PID-8}")
    await expect(page.locator(".cm-lintRange-error")).to_have_count(0, timeout=SLOW)
    await _tried(page)
    await page.get_by_role("link", name='"F"').click()
    await expect(_chosen(page)).to_contain_text("resources/patient.yaml:5")
    await expect(page.locator(".cm-line.lit")).to_have_text("  maritalStatus: {text: PID-8}")
    assert (site.rig.folder / "mappings/resources/patient.yaml").read_text() == PATIENT
    async with page.expect_download() as downloading:
        await page.get_by_role("button", name="Download edited files").click()
    text = (await (await downloading.value).path()).read_text()
    assert text == PATIENT + "  maritalStatus: {text: PID-8}"
    await window.check()
    await page.context.close()


async def test_tab_leaves_the_editor(browser: Browser, site: Site) -> None:
    """Nobody without a mouse is caught in it."""
    window = await _window(browser, site)
    await window.open("/playground?path=resources/patient.yaml")
    await window.page.get_by_role("textbox", name="Mapping file resources/patient.yaml").focus()
    await window.page.keyboard.press("Tab")
    await expect(window.page.get_by_role("button", name="Run the test cases")).to_be_focused()
    await window.page.context.close()


async def test_an_operator_comes_from_a_message_and_compares(browser: Browser, site: Site) -> None:
    """From its page with a link, the message is there; what an edit changes is told, with a link to an example."""
    window = await _window(browser, site, "operator")
    page = window.page
    await window.open("/messages/1")
    await page.get_by_role("link", name="Try in the playground").click()
    assert "RB-1^^^RVB^MR" in await page.get_by_label("HL7 message").input_value()
    await page.get_by_label("File", exact=True).select_option("shipped/resources/patient.yaml")
    await page.get_by_role("button", name="Open", exact=True).click()
    await expect(page.locator(".cm-content")).to_have_attribute("aria-readonly", "true")
    await page.get_by_label("File", exact=True).select_option("resources/patient.yaml")
    await page.get_by_role("button", name="Open", exact=True).click()
    editor = page.get_by_role("textbox", name="Mapping file resources/patient.yaml")
    await editor.focus()
    await page.keyboard.press("Control+End")
    await page.keyboard.type("  gender:\n")
    await page.get_by_role("button", name="Compare on recent messages").click()
    row = page.get_by_role("row").filter(has_text="Patient.gender")
    await expect(row).to_contain_text("element removed", timeout=SLOW)
    await row.get_by_role("link").click()
    await page.wait_for_url("**/messages/*")
    await window.check()
    await page.context.close()


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="light"),
        pytest.param({"color_scheme": "dark"}, id="dark"),
        pytest.param({"viewport": {"width": 390, "height": 800}}, id="telephone"),
        pytest.param({"viewport": {"width": 360, "height": 740}, "color_scheme": "dark"}, id="telephone in the dark"),
    ],
)
async def test_nothing_is_a_fault_to_axe_or_too_wide(browser: Browser, site: Site, options: dict[str, object]) -> None:
    """With a result, a chosen value and an open file with a mistake."""
    window = await _window(browser, site, "operator" if "viewport" in options else "author", **options)
    page = window.page
    await window.open("/playground?path=shipped/datatypes/xpn.yaml&line=12")
    await _tried(page)
    await page.get_by_role("link", name='"1984-02-29"').click()
    await _chosen(page).get_by_role("link").click()
    await expect(page.locator(".cm-line.lit")).to_contain_text("birthDate", timeout=SLOW)
    await page.get_by_role("textbox", name="Mapping file resources/patient.yaml").focus()
    await page.keyboard.press("Control+End")
    await page.keyboard.type("  x: PID-7")
    await expect(page.locator(".cm-lintRange-error")).to_be_visible(timeout=SLOW)
    found = await Axe().run(page)
    assert [(one["id"], [node["html"][:200] for node in one["nodes"]]) for one in found.response["violations"]] == []
    width = await page.evaluate("window.innerWidth")
    assert await page.evaluate("document.documentElement.scrollWidth") <= width
    assert await page.evaluate(TOO_WIDE) == []
    await window.check()
    await page.context.close()


async def test_an_edit_is_put_in_force_and_taken_back_in_one_click(browser: Browser, site: Site) -> None:
    """The question is answered, the file is on the disk; "Take back" alone puts the one from before there."""
    window = await _window(browser, site)
    page, file = window.page, site.rig.folder / "mappings/resources/patient.yaml"
    page.remove_listener("dialog", window._dialog)
    page.on("dialog", lambda dialog: dialog.accept())
    await window.open("/playground?path=resources/patient.yaml")
    await page.get_by_role("textbox", name="Mapping file resources/patient.yaml").focus()
    await page.keyboard.press("Control+End")
    await page.keyboard.type("  gender:")
    await page.get_by_label("Why").fill("ticket 4711")
    await page.get_by_label("Elements may be lost").check()  # the gender is
    await page.get_by_role("button", name="Put edited files in force").click()
    await expect(page.get_by_role("status").first).to_have_text("The mapping files are in force.", timeout=SLOW)
    assert file.read_text() == PATIENT + "  gender:"
    found = await Axe().run(page)
    assert [one["id"] for one in found.response["violations"]] == []
    await page.get_by_role("button", name="Take back").click()
    await expect(page.get_by_role("status").first).to_have_text(
        "The mapping files from before are in force again.", timeout=SLOW
    )
    assert file.read_text() == PATIENT
    await window.check()
    await page.context.close()


async def test_it_works_without_scripts(browser: Browser, site: Site) -> None:
    """Forms and links alone: try, from the value to its row, from there to the file at its line."""
    window = await _window(browser, site, java_script_enabled=False)
    page = window.page
    await page.get_by_role("link", name="Mapping playground").click()
    await page.get_by_label("File", exact=True).select_option("resources/patient.yaml")
    await page.get_by_role("button", name="Open", exact=True).click()
    await page.get_by_label("resources/patient.yaml", exact=True).fill(PATIENT.replace("PID-7", "EVN-2"))
    await _tried(page)
    await page.get_by_role("link", name='"2025-07-01"').click()
    row = page.locator("tr:target")
    await expect(row).to_contain_text("EVN-2 | date")
    await row.get_by_role("link", name="resources/patient.yaml:4").click()
    await expect(page.get_by_label("resources/patient.yaml", exact=True)).to_be_visible()
    await page.context.close()
