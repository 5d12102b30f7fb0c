"""The help pages: each file has its line in the index, and links know which page they lead to."""

import re

import pytest

from engine.ops.views.handbook import FOLDER, INDEX, PAGES, linked, page_of


def test_every_file_has_its_line() -> None:
    """A page that is not in the index would be found by nobody."""
    files = {*FOLDER.glob("*.md"), *(FOLDER.parents[1] / "interchange/docs").glob("*.md")}
    assert files - {INDEX} <= {page.file for page in PAGES.values()}


@pytest.mark.parametrize("page", PAGES.values(), ids=list(PAGES))
def test_a_page_begins_with_its_title(page: object) -> None:
    """Each has one first heading, which stands first."""
    text = page_of(page.name).text()  # type: ignore[attr-defined]
    assert text.startswith("# ")
    assert len(re.findall(r"^# ", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE)) == 1


@pytest.mark.parametrize(
    ("page", "link", "leads"),
    [
        ("control", "reasons.md#hold-storm", "reasons#hold-storm"),
        ("incident", "backup.md#restore", "backup#restore"),
        ("backup", "#restore", "backup#restore"),
        ("backup", "../../../channels/README.md", "channels"),
        ("channels", "../engine/ops/docs/servers.md", "servers"),
        ("metrics", "../../interchange/docs/fhir-service.md#start-it", "fhir-service#start-it"),
        ("interchange", "docs/fhir-api.md", "fhir-api"),
        ("fhir-api", "fhir-events.md#jobs", "fhir-events#jobs"),
        ("fhir-events", "../webhooks.md", None),
        ("find", "README.md", ""),
        ("", "find.md", "find"),
        ("channels", "../README.md", None),
        ("interchange", "web/http/route.py", None),
        ("find", "https://example.org/find.md", None),
    ],
)
def test_a_link_knows_its_page(page: str, link: str, leads: str | None) -> None:
    """Links are written as for a reader of the files; what is no page leads nowhere."""
    assert linked(page, link) == leads
