"""The page on subscriptions, run as it stands, and the browser of it: who was told opens the chart.

  python -m tests.interchange.webhooks.at_the_chart ADDRESS USER NUMBER FOLDER       password: CHART_PASSWORD

reads the visits of the patient of that record number, and leaves a picture of each step in the folder.
"""

import os
import sys
from pathlib import Path
from typing import Final

from playwright.sync_api import ViewportSize, expect, sync_playwright

from tests.chromium import CHROMIUM, OPTIONS
from tests.guides import ROOT, at_free_ports, run, whole

PAGE: Final = ROOT / "engine/interchange/webhooks.md"
PICTURES: Final = ("chart-search.png", "chart-visits.png")
SIZE: Final[ViewportSize] = {"width": 1440, "height": 900}
# Where a reader opens a browser, and what does so here.
BY_HAND: Final = "<!-- in a browser -->"
OPENED: Final = f"""```sh
PYTHONPATH={ROOT} python -m {__name__} http://127.0.0.1:8080/chart nurse.osei RB-40017 pictures
```"""


def story(folder: Path) -> Path:
    """Run the page in a folder; return where the pictures are, which are there if Chromium is."""
    guide = whole(PAGE)
    assert BY_HAND in guide
    guide = guide.replace(BY_HAND, OPENED if CHROMIUM else "")
    run(at_free_ports(guide, 2575, 8080, 8081, 8443), folder)
    return folder / "pictures"


def main() -> None:
    """Sign in, find the patient, and read the visits: one, finished."""
    address, user, number, folder = sys.argv[1:]
    search, visits = (Path(folder) / name for name in PICTURES)
    with sync_playwright() as driver:
        page = driver.chromium.launch(executable_path=CHROMIUM, args=OPTIONS).new_page(viewport=SIZE)
        page.goto(address)
        page.get_by_role("link", name="Sign in").click()
        page.get_by_label("User name").fill(user)
        page.get_by_label("Password").fill(os.environ["CHART_PASSWORD"])
        page.get_by_role("button", name="Sign in and allow").click()
        page.get_by_label("Record number").fill(number)
        page.get_by_role("button", name="Search").click()
        expect(page.get_by_role("status")).to_contain_text("1 patient matches")
        page.screenshot(path=search)
        page.get_by_role("link", name="Quintero").click()
        page.get_by_role("link", name="Visits", exact=True).click()
        visit = page.get_by_role("main").get_by_role("listitem").filter(has=page.get_by_role("heading"))
        expect(visit).to_have_count(1)
        expect(visit).to_contain_text("finished")
        page.screenshot(path=visits)


if __name__ == "__main__":
    main()
