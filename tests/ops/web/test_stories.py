"""What a person does at night who has never seen the pages: by links and fields alone, in few clicks each.

With a mouse at a desk and on a telephone in the dark, with the keyboard alone, and without scripts.
"""

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, Locator, Page, expect

from engine.ops.sender.line import send_messages
from engine.ops.web.call import FRESH_SECONDS
from tests.chromium import CHROMIUM
from tests.ops.web.conftest import Site, message
from tests.ops.web.person import PASSWORD
from tests.ops.web.story import HELD, MERGE, night
from tests.ops.web.test_browser import PAGES, TOO_WIDE, VIOLATIONS

MOST_TABS: Final = 120
DESK: Final = {"viewport": {"width": 1440, "height": 900}}
TELEPHONE: Final = {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark"}
# What reaches beyond the window, so that a failure names it.
BEYOND: Final = """
[...document.querySelectorAll('main *')].filter(one => one.getBoundingClientRect().right > innerWidth + 1)
  .map(one => `${one.tagName}.${one.className} ${one.textContent.trim().slice(0, 60)}`).slice(0, 6)
"""
NO_SCRIPTS: Final = {"java_script_enabled": False, **DESK}

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="needs Chromium: apt-get install chromium (CI does, see .ci/run)"
)


class Hands:
    """Somebody at a page; `clicks` counts links and buttons that were used, by mouse or by key."""

    def __init__(self, page: Page, site: Site, *, keyboard: bool = False) -> None:
        self.page = page
        self.site = site
        self.clicks = 0
        self._keyboard = keyboard

    async def use(self, what: Locator) -> None:
        """Click a link or a button, or reach it by Tab and press Enter."""
        self.clicks += 1
        if not self._keyboard:
            await what.click()
        else:
            await self._reach(what)
            await self.page.keyboard.press("Enter")
        await self.page.wait_for_load_state()

    async def write(self, what: Locator, text: str) -> None:
        """Write into a field, in place of what stands there."""
        if not self._keyboard:
            await what.fill(text)
            return
        await self._reach(what)
        await self.page.keyboard.press("ControlOrMeta+a")
        await self.page.keyboard.insert_text(text)

    async def tick(self, what: Locator) -> None:
        """Tick a box."""
        if not self._keyboard:
            await what.check()
            return
        await self._reach(what)
        await self.page.keyboard.press("Space")

    async def _reach(self, what: Locator) -> None:
        for _ in range(MOST_TABS):
            if await what.evaluate("element => element === document.activeElement"):
                return
            await self.page.keyboard.press("Tab")
        raise AssertionError("Tab never came to it")

    async def find(self, text: str) -> None:
        """Use the field that is on every page."""
        await self.write(self.page.get_by_role("searchbox", name="Find"), text)
        await self.use(self.page.get_by_role("button", name="Find"))


async def why_is_it_wrong(hands: Hands) -> None:
    """Why is RB-20 wrong since last night: the first sentence says it."""
    await hands.find("RB-20")
    verdict = hands.page.locator("main p").filter(has_text=f"Held behind {HELD}").first
    await expect(verdict).to_contain_text("birthDate")


async def where_it_came_from(hands: Hands) -> None:
    """What is held for RB-20, what that means, what to do next, and which field each value came from."""
    await hands.find("RB-20")
    held = hands.page.get_by_role("table").filter(has_text="missing-required").first
    await hands.use(held.get_by_role("link", name=str(HELD), exact=True))
    main = hands.page.locator("main")
    await expect(main).to_contain_text("Patient.birthDate")
    await expect(main).to_contain_text("Next:")
    await expect(main).to_contain_text("1 message of 1 patient")
    await hands.use(hands.page.get_by_role("link", name="Where each value came from"))
    await expect(main).to_contain_text("PID-5")


async def all_about_a_patient(hands: Hands) -> None:
    """Everything about a patient by an old number: record, numbers, merge, visit, all messages."""
    await hands.find("RB-11")
    main = hands.page.locator("main")
    for said in ("Quintero, Marisol", "RB-10", "RB-11", "merged away", "5E 512 A", "Every message"):
        await expect(main).to_contain_text(said)
    await expect(main.get_by_role("link", name=str(MERGE), exact=True).first).to_be_visible()
    assert "RB-11" not in hands.page.url


async def what_is_held_and_for_whom(hands: Hands) -> None:
    """What is held, for whom, since when, and what waits behind it."""
    await hands.use(hands.page.get_by_role("link", name="Held work"))
    rows = hands.page.locator("tbody tr")
    await expect(rows.filter(has_text="Alderton, Hugo")).to_contain_text("1 message of 1 patient")
    await expect(rows.filter(has_text="Castellan, Greta")).to_contain_text("Patient.birthDate")


async def edited_tried_and_replayed(hands: Hands) -> None:
    """A message is found by its control ID, edited, tried without a write, stored and delivered."""
    site, control_id = hands.site, f"E{len(hands.site.rig.rows())}"
    held = message(control_id, f"RB-{control_id}", "Everhart^Jasper", born="")
    await send_messages(*await site.rig.address(), [held])
    await site.rig.until(lambda rows: rows[-1].state == "held")
    await hands.find(control_id)
    await hands.use(hands.page.get_by_role("link", name="Edit and replay"))
    field = hands.page.get_by_label("Message", exact=True)
    text = await field.input_value()
    await hands.write(field, text.replace("Jasper|||F", "Jasper||19700501|F"))
    await hands.use(hands.page.get_by_role("button", name="Dry run"))
    await expect(hands.page.locator("main")).to_contain_text("1970-05-01")
    await hands.write(hands.page.get_by_label("Reason for the edit"), "from the ward")
    await hands.tick(hands.page.get_by_label("Discard the original"))
    await hands.use(hands.page.get_by_role("button", name="Store and deliver"))
    await expect(hands.page.locator("main")).to_contain_text("Made from")
    await site.rig.until(lambda rows: [row.state for row in rows[-2:]] == ["discarded", "delivered"])


async def all_that_failed_tried_again(hands: Hands) -> None:
    """All that failed since last night: a dry run says before what would be held again, then it is retried."""
    await hands.use(hands.page.get_by_role("link", name="Held work"))
    await hands.use(hands.page.get_by_role("button", name="Dry run of a retry"))
    main = hands.page.locator("main")
    await expect(main).to_contain_text("that were tried would be delivered")
    await expect(main.get_by_role("row").filter(has_text="missing-required").first).to_be_visible()
    await hands.use(main.get_by_role("button", name="Retry"))
    await expect(main).to_contain_text("Held again", timeout=30_000)


# Each story, and the links and buttons that it may take from the first page on.
STORIES: Final[Mapping[Callable[[Hands], Awaitable[None]], int]] = {
    why_is_it_wrong: 1,
    all_about_a_patient: 1,
    what_is_held_and_for_whom: 1,
    where_it_came_from: 3,
    all_that_failed_tried_again: 3,
    edited_tried_and_replayed: 4,
}


@pytest.fixture(scope="module")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    """The night's engine, with an operator; each story leaves it as the others need it."""
    async with night(tmp_path_factory.mktemp("stories")) as made:
        await made.person("operator")
        yield made


async def _log_in(browser: Browser, site: Site, options: dict[str, Any]) -> tuple[Page, list[str]]:
    context = await browser.new_context(**options)
    await context.add_init_script(VIOLATIONS)
    page, faults = await context.new_page(), list[str]()
    page.on("console", lambda said: faults.append(said.text) if said.type in {"error", "warning"} else None)
    page.on("pageerror", lambda error: faults.append(str(error)))
    await page.goto(f"http://127.0.0.1:{site.port}/")
    await page.get_by_label("Name").fill("operator")
    await page.get_by_label("Password").fill(PASSWORD)
    await page.get_by_role("button", name="Log in").click()
    await page.wait_for_url("**/overview")
    return page, faults


@pytest.mark.parametrize(
    ("options", "keyboard"),
    [
        pytest.param(DESK, False, id="mouse"),
        pytest.param(DESK, True, id="keyboard"),
        pytest.param(TELEPHONE, False, id="telephone in the dark"),
        pytest.param(NO_SCRIPTS, False, id="without scripts"),
    ],
)
async def test_who_has_never_seen_it_needs_few_clicks(
    browser: Browser, site: Site, options: dict[str, Any], keyboard: bool
) -> None:
    """Each story begins at the first page and ends within its links and buttons, with no fault on the way."""
    page, faults = await _log_in(browser, site, options)
    for story, most in STORIES.items():
        await page.goto(f"http://127.0.0.1:{site.port}/overview")
        hands = Hands(page, site, keyboard=keyboard)
        await story(hands)
        assert hands.clicks <= most, story.__doc__
    assert faults == []
    await page.context.close()


async def _check(page: Page, where: str, width: int) -> None:
    """Nothing is a fault to axe, refused by the policy, or wider than its room."""
    found = (await Axe().run(page)).response["violations"]
    assert [(where, one["id"], one["nodes"][0]["html"][:200]) for one in found] == []
    assert await page.evaluate("document.documentElement.scrollWidth") <= width, (where, await page.evaluate(BEYOND))
    assert await page.evaluate(TOO_WIDE) == [], where
    assert await page.evaluate("window.violations") == [], where


@pytest.mark.parametrize("options", [pytest.param(DESK, id="light"), pytest.param(TELEPHONE, id="dark, 390 pixels")])
async def test_no_page_is_a_fault_to_axe(browser: Browser, site: Site, options: dict[str, Any]) -> None:
    """Every page of an operator, those that only a form leads to as well, in light and in the dark."""
    page, faults = await _log_in(browser, site, options)
    width = options["viewport"]["width"]
    helping = [path for path in PAGES if path.startswith("/help/")]
    others = [path for path in PAGES if path not in helping]
    ours = (*others, helping[0], f"/messages/{MERGE}", f"/messages/{MERGE}/patient", "/duplicates/2")
    for path in ours:
        await page.goto(f"http://127.0.0.1:{site.port}{path}")
        await _check(page, path, width)
    for typed, heading in (("rb-2", "Patients"), ("giraffe", "Nothing was found")):
        await page.get_by_role("searchbox", name="Find").fill(typed)
        await page.get_by_role("searchbox", name="Find").press("Enter")
        await expect(page.get_by_role("heading", name=heading)).to_be_visible()
        await _check(page, heading, width)
    await page.goto(f"http://127.0.0.1:{site.port}/lanes")
    await page.get_by_label("All shown here").first.check()
    for button in ("Release the ticked", "Discard them"):
        await page.goto(f"http://127.0.0.1:{site.port}/lanes")
        await page.get_by_label("All shown here").first.check()
        await page.get_by_role("button", name=button).click()
        await expect(page.get_by_role("heading", level=1)).to_have_text(re.compile(r"^(Release|Discard) \d+ mess"))
        await _check(page, button, width)
    await page.keyboard.press("?")
    await expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    await _check(page, "keys", width)
    assert faults == []
    await page.context.close()


async def test_keys_lead_where_the_list_of_them_says(browser: Browser, site: Site) -> None:
    """`/` finds, `g m` goes, `j` and `k` move within a list and along a patient, `?` tells; turned off, none does."""
    page, faults = await _log_in(browser, site, DESK)
    await page.keyboard.press("/")
    await expect(page.get_by_role("searchbox", name="Find")).to_be_focused()
    await page.keyboard.type("gm/?j")
    await expect(page.get_by_role("searchbox", name="Find")).to_have_value("gm/?j")
    await page.locator("h1").click()
    await page.keyboard.press("g")
    await page.keyboard.press("m")
    await page.wait_for_url("**/messages")
    rows = page.locator("tbody tr td[data-label=Entry] a")
    for key, at in (("j", 0), ("j", 1), ("k", 0)):
        await page.keyboard.press(key)
        await expect(rows.nth(at)).to_be_focused()
    await page.goto(f"http://127.0.0.1:{site.port}/messages/3")
    await page.keyboard.press("j")
    await page.wait_for_url("**/messages/4")
    await page.keyboard.press("k")
    await page.wait_for_url("**/messages/3")
    await page.keyboard.press("?")
    await page.get_by_label("Use these keys").uncheck()
    await page.get_by_role("button", name="Close").click()
    await page.reload()
    await page.keyboard.press("j")
    await page.keyboard.press("/")
    await expect(page.get_by_role("searchbox", name="Find")).not_to_be_focused()
    assert page.url.endswith("/messages/3")
    await page.get_by_role("link", name="Keys").click()
    await page.get_by_label("Use these keys").check()
    assert faults == []
    await page.context.close()


async def test_the_menu_counts_and_times_say_how_long_ago(browser: Browser, site: Site) -> None:
    """Held work has its number in the menu of every page; each time stands with its distance from now."""
    page, _faults = await _log_in(browser, site, DESK)
    await page.goto(f"http://127.0.0.1:{site.port}/messages/{MERGE}")
    count = page.get_by_role("navigation").get_by_role("link", name="Held work").locator(".count")
    held = [row.state for row in site.rig.rows()].count("held")
    await page.wait_for_timeout(FRESH_SECONDS * 1000)  # another test may just have discarded one
    await page.reload()
    await expect(count).to_have_text(str(held))
    await expect(page.locator("main time + .ago").first).to_have_text(re.compile(r"^\d+ (s|min|h) ago$"))
    await page.context.close()


async def test_an_explanation_is_filtered_fifty_rows_a_page(browser: Browser, site: Site) -> None:
    """What it is filtered by may be a patient's: it stands in no address; what does not have it is gone."""
    page, _faults = await _log_in(browser, site, DESK)
    await page.goto(f"http://127.0.0.1:{site.port}/messages/4/explain")
    whole = await page.locator("tbody tr").count()
    assert 10 < whole <= 50
    await page.get_by_label("Element, value, field or rule").fill("quintero")
    await page.get_by_role("button", name="Filter").click()
    await expect(page.locator("main")).to_contain_text(f"1 element of {whole}")
    await expect(page.locator("tbody tr")).to_contain_text(["Patient.name[0].family"])
    assert "quintero" not in page.url.casefold()
    await page.get_by_role("link", name="All elements").click()
    await expect(page.locator("tbody tr")).to_have_count(whole)
    await page.goto(f"http://127.0.0.1:{site.port}/messages/1/explain")
    use = page.locator("tbody tr", has_text="Patient.telecom[0].use")
    await expect(use).to_contain_text("unless XTN.2 lets it through, as PID-13(1).2 is empty")
    await page.context.close()
