"""The help pages in the browser: who sees them, what they link to, and nothing of them is more than text."""

import re

import pytest

from engine.ops.views.handbook import PAGES
from engine.ops.views.reasons import REASONS
from engine.ops.web.pages.help import html_of
from tests.ops.web.conftest import ROLES, Site


@pytest.mark.parametrize("role", ROLES)
async def test_everybody_who_is_signed_in_has_help(site: Site, role: str) -> None:
    """The menu has it for each role; it lists each page, and each page comes."""
    one = await site.person(role)
    answer = await one.get("/help")
    assert '<a href="/help" aria-current="page">Help</a>' in answer.text
    for name in PAGES:
        assert f'<a href="/help/{name}">' in answer.text
        assert (await one.get(f"/help/{name}")).status_code == 200


async def test_links_between_pages_lead_to_a_page_and_a_place(site: Site) -> None:
    """Every address of a help page that stands in one is a page, with the place that it names."""
    one = await site.person("viewer")
    found = {name: (await one.get(f"/help/{name}")).text for name in PAGES} | {"": (await one.get("/help")).text}
    links = {link for text in found.values() for link in re.findall(r'href="/help/?([^"]*)"', text)}
    assert len(links) > len(PAGES)
    for link in links:
        name, _, place = link.partition("#")
        assert name in found, link
        assert not place or f'id="{place}"' in found[name], link
    for code in REASONS:
        assert f'id="{code}"' in found["reasons"], code


async def test_an_unknown_page_names_the_nearest_and_repeats_nothing(site: Site) -> None:
    """404, and the page that may be meant; what was typed is not said again."""
    one = await site.person("viewer")
    answer = await one.get("/help/replair-RB-1004")
    assert answer.status_code == 404
    assert "RB-1004" not in answer.text
    assert "did you mean repair?" in (await one.get("/help/replair")).text


def test_html_in_markdown_is_text() -> None:
    """No page can bring markup, a script, an address of another kind or a style of its own."""
    made = html_of("find", "<script>a</script> [x](javascript:b) ![i](http://c/d.png)\n\n| h |\n|--:|\n| <b>e</b> |\n")
    assert "<script" not in made
    assert "<b>" not in made
    assert "javascript:" not in re.sub(r">[^<]*<", "><", made)
    assert "style" not in made


async def test_the_reasons_are_narrowed_by_word_code_and_symptom(site: Site) -> None:
    """A form without JavaScript: only rows that hold the words, a code first; a symptom leads to its codes."""
    one = await site.person("viewer")
    everything = (await one.get("/reasons")).text
    assert set(re.findall(r'<tr id="([^"]+)"', everything)) == set(REASONS)
    assert '<form method="get" action="/reasons"' in everything
    assert 'hx-get="/reasons" hx-trigger="input delay:200ms, submit" hx-target="#found"' in everything
    for words, first in (
        ("http-412", "http-4*"),
        ("umlaut", "undecodable"),
        ("source-merged", "source-merged-elsewhere"),
    ):
        rows = re.findall(r'<tr id="([^"]+)"', (await one.get(f"/reasons?words={words}")).text)
        assert rows[0] == first
        assert len(rows) < len(REASONS) / 4
    nothing = (await one.get("/reasons?words=quinces")).text
    assert "No reason holds these words" in nothing
    assert 'href="/help?words=quinces"' in nothing


async def test_help_is_searched_in_the_browser(site: Site) -> None:
    """Sections that hold the words, each a link to a place that its page has; what was typed is text."""
    one = await site.person("viewer")
    text = (await one.get("/help?words=certificate+expir")).text
    links = re.findall(r'<li><a href="/help/([a-z-]+)#([^"]*)">', text)
    assert "reasons" in {page for page, _ in links}
    for page, place in links[:10]:
        assert f'id="{place}"' in (await one.get(f"/help/{page}")).text, (page, place)
    hostile = (await one.get("/help?words=%3Cb%3Ebold")).text
    assert "<b>bold" not in hostile
    assert "0 sections hold these words" in hostile
