"""Narratives: what FHIR's txt-1 lets stand in `text.div`, and what acts."""

import pytest

from engine.fhir.narrative import is_narrative, narrative_defects

XHTML = 'xmlns="http://www.w3.org/1999/xhtml"'
FINE = [
    f"<div {XHTML}>Ana Quintero, born 1984 &amp; seen &lt;twice&gt; &nbsp; &#160;</div>",
    f'<div {XHTML} xml:lang="en" lang="en"><p style="color: red; margin: 0">x<br/>y<br></p><hr/></div>',
    f'<div {XHTML}><table border="1"><thead><tr><th colspan="2">a</th></tr></thead></table></div>',
    f"<div {XHTML}><table><tbody><tr><td>b</td></tr></tbody></table></div>",
    f'<div {XHTML}><ul class="x"><li id="i1"><b>1</b></li></ul><ol start="2"><li>z</li></ol></div>',
    f"<div {XHTML}><a href='#i1' title='a > b'>i</a> <a name='n'/></div>",
    f'<div {XHTML}><a href="https://x.example/a?b=1&amp;c=2">x</a></div>',
    f'<div {XHTML}><a href="Patient/1">p</a> <a href="mailto:a@x.example">m</a> <a href="tel:+15035550101">t</a></div>',
    f'<div {XHTML}><img src="data:image/png;base64,AAAA" alt="x"/><img src="logo.gif" alt="y"/></div>',
    f"<div {XHTML}><!-- Snipped for brevity --><pre>if a then b</pre></div>",
    "<div>plain</div>",
    "one two",
    "",
]
ACTIVE = [
    "<div><script>alert(1)</script></div>",
    "<div><SCRIPT src='//x.example/a.js'></SCRIPT></div>",
    "<div><x:script xmlns:x='http://www.w3.org/1999/xhtml'>alert(1)</x:script></div>",
    '<div><img src="x" onerror="alert(1)"/></div>',
    "<div><img src=x onerror=alert(1)></div>",
    "<div><img/src='x'/onerror='alert(1)'></div>",
    '<div onclick="alert(1)">x</div>',
    '<div ONCLICK = "alert(1)">x</div>',
    '<div><a href="javascript:alert(1)">x</a></div>',
    '<div><a href=" java&#10;script:alert(1)">x</a></div>',
    '<div><a href="&#106;avascript&colon;alert(1)">x</a></div>',
    '<div><a href="vbscript:x">x</a><a href="data:text/html,x">y</a></div>',
    '<div><a xlink:href="javascript:alert(1)" xmlns:xlink="http://www.w3.org/1999/xlink">x</a></div>',
    '<div><img src="data:image/svg+xml;base64,AAAA"/></div>',
    "<div><svg onload='alert(1)'/></div>",
    "<div><math><mtext></mtext></math></div>",
    "<div><iframe src='https://x.example'/></div>",
    "<div><object data='x'/><embed src='x'/></div>",
    "<div><form action='https://x.example'><input name='p'/></form></div>",
    "<div><link rel='stylesheet' href='x'/></div>",
    "<div><style>p { background: url(x) }</style></div>",
    "<div><meta http-equiv='refresh' content='0'/></div>",
    "<div><base href='https://x.example'/></div>",
    '<div style="background: url(https://x.example/p.gif)">x</div>',
    '<div style="width: expression(alert(1))">x</div>',
    '<div style="-moz-binding: none">x</div>',
    '<div style="w\\69 dth: 1">x</div>',
    '<table background="https://x.example/p.gif"></table>',
    "<div><!--><img src=x onerror=alert(1)>--></div>",
    "<div><!-- <b> --></div>",
    "<div><![CDATA[<script>alert(1)</script>]]></div>",
    "<div><?xml-stylesheet href='x'?></div>",
    "<!DOCTYPE html><div>x</div>",
    "<div>x<img src='x' onerror='alert(1)'",
    "<div title='<b'>x</div>",
    "<div><a href='x' <b>y</b></div>",
    "<div><video poster='x'/></div>",
    "<div><button>x</button></div>",
]


@pytest.mark.parametrize("div", FINE)
def test_what_a_narrative_may_hold(div: str) -> None:
    """Text, lists, tables, links, images, comments and quiet styles."""
    assert is_narrative(div)


@pytest.mark.parametrize("div", ACTIVE)
def test_what_acts(div: str) -> None:
    """Scripts in each of their forms, what loads or sends something, and what no reader of XHTML agrees about."""
    assert not is_narrative(div)


def test_contained_narratives_are_looked_at_too() -> None:
    """Each is named by its place, also within what is contained; the value is in no text."""
    bad = {"text": {"status": "generated", "div": ACTIVE[0]}}
    found = [*narrative_defects({**bad, "contained": [{"text": {"div": FINE[0]}}, bad, "x"]}, "Patient")]
    assert [one.path for one in found] == ["Patient.text.div", "Patient.contained[1].text.div"]
    assert all("alert" not in one.text for one in found)
    assert [*narrative_defects({"text": {"div": 1}, "contained": {}}, "Patient")] == []


@pytest.mark.parametrize("part", ["<b ", "<b a", "<b a='", '<b a="x" ', "<!--", "<!-- -", "<", "</b", "<b a = "])
def test_a_long_text_is_read_once(part: str) -> None:
    """Whatever is repeated or never ends: a megabyte is looked at, and refused."""
    assert not is_narrative("<div>" + part * (1_000_000 // len(part)))
    assert not is_narrative("<div " + part[1:] * (1_000_000 // len(part)) + "<")
