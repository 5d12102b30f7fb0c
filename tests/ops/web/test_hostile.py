"""What a sender may put into any field: no page shows it but as text in which nothing is unseen."""

import html
import re
from collections.abc import AsyncIterator
from urllib.parse import quote

import orjson
import pytest

from engine.ops.sender.line import send_messages
from tests.flow.proxy import Fault
from tests.flow.rig import destination, running, write
from tests.flow.test_look_ups import ended, looking_up
from tests.flow.test_notices import notices, taking
from tests.ops.web.conftest import Site, start

# Turns the direction, isolates, moves the cursor, hides, joins, stands for nothing at all.
EVIL = "\u202e\u2066\x1b[31m\u200b\u00ad\ufeff\u061c\u2028\u180e\u3164\U000e0041"
SEEN = re.compile("[\u202a-\u202e\u2066-\u2069\x1b\u200b\u00ad\ufeff\u061c\u2028\u180e\u3164\U000e0000-\U000e007f]")


def _message(number: int, event: str, born: str, name: str = "Quintero^Marisol") -> bytes:
    """Return a message with something evil wherever a text may stand."""
    head = f"MSH|^~\\&|A{EVIL}|B{EVIL}|C{EVIL}|D{EVIL}|20250701101500||ADT^{event}|E{number}{EVIL}|P|2.5.1"
    person = f"PID|1||EV-{number}^^^RVB^MR||{name}||{born}|F||X{EVIL}|1 Road{EVIL}^^Town{EVIL}|||||M{EVIL}"
    visit = f"PV1|1|I|W{EVIL}^R{EVIL}|||||||S{EVIL}|||||||||V{number}{EVIL}"
    return f"{head}|||||||UNICODE UTF-8\rEVN||20250701101500||{EVIL}\r{person}\r{visit}\rZ{number}9|{EVIL}\r".encode()


@pytest.fixture(scope="module")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    """An engine that was sent evil: delivered, held with one behind it, refused."""
    folder = tmp_path_factory.mktemp("hostile")
    async with running(folder, lookup_on=["A01"], lookup_max_age_hours=876_000) as rig:
        looked_up = looking_up(Fault(status=202, headers={"Content-Location": "http://h/<b>\u00ad"}))
        rig.proxy.script = lambda call: looked_up(call) or taking(Fault(status=422))(call)
        told = {"destinations": [destination(rig.proxy.url, notify="admin-notify")]}
        file = rig.folder / "channels" / "riverbend-adt.yaml"
        write(file, orjson.loads(file.read_bytes()) | told)
        made = await start(rig)
        feed = [
            _message(1, "A01^ADT_A01", "19840229"),
            _message(2, "A28^ADT_A05", ""),
            _message(2, f"A08{EVIL}", ""),
            _message(3, "A28^ADT_A05", "19840229", f"Quintero{EVIL}^{EVIL}"),
            # Nothing evil: delivered, so that the server has a handle to say.
            _message(4, "A01^ADT_A01", "19840229").replace(EVIL.encode(), b""),
        ]
        await send_messages(*await rig.address(), feed)
        await rig.until(lambda rows: len(rows) == len(feed) and not {"received", "claimed"} & {r.state for r in rows})
        await ended(rig, 1)
        await rig.until(lambda rows: any(notice[:2] == (len(rows), "refused") for notice in notices(rig)))
        try:
            yield made
        finally:
            for person in made.people.values():
                await person.close()


@pytest.mark.parametrize("role", ["operator", "viewer", "auditor", "admin"])
async def test_nothing_unseen_stands_on_any_page(site: Site, role: str) -> None:
    """Lists, messages, explanations, dry runs, live parts and what a search was for: each such character is named."""
    one, states = await site.person(role), [row.state for row in site.rig.rows()]
    assert {"held", "rejected"} <= set(states)
    pages = ["/overview", "/messages", "/lanes", "/alerts", "/codes", "/duplicates", "/runs", "/channels", "/audit"]
    pages += [
        "/messages?state=held",
        "/messages?state=rejected",
        f"/messages?reason={quote(EVIL)}",
        f"/lanes?reason={quote(EVIL)}",
    ]
    pages += [f"/codes/values?place={place}" for place in ("PID-10", "PID-16", "PV1-10")]
    entries = range(1, len(states) + 1)
    pages += [f"/messages/{entry}{more}" for entry in entries for more in ("", "/explain", "/edit", "/choose")]
    found: dict[str, object] = {}
    for path in pages:
        text = _shown((await one.get(path)).text)
        if seen := SEEN.findall(text):
            found[path] = (seen[0].encode("unicode_escape"), text[max(text.index(seen[0]) - 60, 0) :][:120])
    if role == "operator":
        for entry in entries:
            await one.get(f"/messages/{entry}")
            found |= dict.fromkeys(SEEN.findall(_shown((await one.post(f"/messages/{entry}/rehearse")).text)), entry)
        await one.get("/messages")
        place = (await one.post("/messages/search", {"control_id": f"E1{EVIL}", "patient": EVIL})).headers["location"]
        found |= dict.fromkeys(SEEN.findall(_shown((await one.get(place)).text)), "search")
    assert found == {}


def _shown(page: str) -> str:
    """Return a page without what stands in fields to be typed into: there it must stay as it is."""
    page = re.sub(r'<textarea.*?</textarea>|\bvalue="[^"]*"|\b(?:href|action)="[^"]*"', "", page, flags=re.DOTALL)
    return html.unescape(page)


async def test_a_look_up_is_shown_with_its_handle(site: Site) -> None:
    """How it stands is for all to see, who was looked up and where it ends for those who may see patients; as text."""
    shown = _shown((await (await site.person("operator")).get(f"/messages/{len(site.rig.rows())}")).text)
    assert "<dt>Look-up</dt><dd>accepted" in shown
    assert "http://h/<b>" in shown
    facts = _shown((await (await site.person("viewer")).get(f"/messages/{len(site.rig.rows())}")).text)
    assert "<dt>Look-up</dt><dd>accepted" in facts
    assert "http://h/" not in facts


async def test_a_notice_is_shown_with_what_became_of_it(site: Site) -> None:
    """For all to see: that it was refused, what that means, and with which codes."""
    for role in ("operator", "viewer"):
        shown = _shown((await (await site.person(role)).get(f"/messages/{len(site.rig.rows())}")).text)
        assert re.search("<dt>Notice</dt><dd>refused by the server, .*notice-refused.*http-422", shown, re.DOTALL)
