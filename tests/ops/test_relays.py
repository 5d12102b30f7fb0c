"""What people and programs see of relays: commands, pages, API, status and search of an engine that has two."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest

from engine.config.text import entry_of_own, own_control_id
from engine.deliver.relay import METHOD
from engine.journal.entry import LATER, SENT
from engine.ops.sender.line import send_messages
from engine.pipeline.outbound.relaying import APPLICATION
from tests.interchange.nursery import ran
from tests.ops.command import command
from tests.ops.relays import Receiver, acknowledgement, relay, relaying
from tests.ops.web.conftest import Site, message

ORU: Final = b"MSH|^~\\&|EHR|RVB|||20250101||ORU^R01|R1|P|2.5.1\rPID|1||RB-1^^^RVB^MR\rOBX|1|ST|a||x\r"
FEED: Final = (message("C1", "RB-1"), message("C2", "RB-2"), message("C3", "RB-3"), ORU)
DELIVERED, HELD, RELAYED = 1, 2, 4
# What radiology answers to each; the archive is down.
ANSWERS: Final = {"C1": "CA", "C2": "AE"}


@pytest.fixture(scope="module")
async def receiver() -> AsyncIterator[Receiver]:
    """The receiver of radiology."""
    async with Receiver(ANSWERS) as one:
        yield one


@pytest.fixture(scope="module")
async def site(tmp_path_factory: pytest.TempPathFactory, receiver: Receiver) -> AsyncIterator[Site]:
    """An engine with the service, radiology in the order of the feed, which holds, and an archive that is down."""
    relays = (relay(receiver.port), relay(1, "archive", relay="all"))
    folder = tmp_path_factory.mktemp("relays")
    async with relaying(folder, *relays, unhandled_messages="relay") as rig:
        site = Site(rig, (await rig.engine.line("pages listening"))["port"])
        await send_messages(*await rig.address(), list(FEED))
        await rig.until(lambda _rows: ended(site, "interchange") == 3 and ended(site, "radiology", "held") == 1)
        await receiver.say(acknowledgement("AR", "C1"))
        await rig.until(lambda _rows: any(one.method == "ACK" for one in rig.attempts()))
        yield site
        await asyncio.gather(*(person.close() for person in site.people.values()))


def ended(site: Site, destination: str, state: str = "delivered") -> int:
    """Return how many deliveries of a destination are in a state."""
    sql = f"SELECT COUNT(*) FROM delivery WHERE destination = '{destination}' AND state = '{state}'"  # noqa: S608
    return int(site.rig._query(sql)[0][0])


async def said(site: Site, *words: str) -> str:
    """Return what a command says of the running engine."""
    done = await command(*words, data=site.rig.folder / "data")
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


async def test_an_attempt_is_shown_as_mllp(site: Site) -> None:
    """By the code of the acknowledgement, which stands below it by segment."""
    shown = await said(site, "messages", "show", str(HELD))
    assert "MLLP mllp://127.0.0.1:" in shown
    assert "  AE 207 (refused for good)" in shown
    assert "       ERR|||207^Application internal error^HL70357|E||||the queue is full\n" in shown
    assert "Entry 2: waiting behind another receiver-error" in shown
    answer = await site.act("messages.show", entry=HELD)
    attempt = next(one for one in answer["deliveries"] if one["destination"] == "radiology")["attempts"][0]
    assert (attempt["method"], attempt["ack"], attempt["status"]) == ("MLLP", "AE", 500)
    assert {one["destination"]: bool(one["mapping"]) for one in answer["deliveries"]} == {
        "archive": False,
        "interchange": True,
        "radiology": False,
    }
    assert next(step for step in answer["timing"]["steps"] if step["destination"] == "radiology")["what"] == "MLLP AE"


async def test_an_application_acknowledgement_that_came_later(site: Site) -> None:
    """The delivery had ended with CA; what the application says is an attempt of its own."""
    shown = await said(site, "messages", "show", str(DELIVERED))
    assert "radiology: delivered accepted" in shown
    assert "  2. later application acknowledgement  AR" in shown


async def test_the_page_of_a_message_that_is_held_at_a_relay(site: Site) -> None:
    """Why, what next, the receiver's own words; no status of HTTP, and nothing of FHIR."""
    person = await site.person("operator")
    page = (await person.get(f"/messages/{HELD}")).text
    assert "answered AE or CE" in page
    assert "<b>Next:</b> Read the answer with" in page
    assert "MLLP" in page
    assert ">AE</span>" in page
    assert ">500<" not in page
    whole = await site.person("viewer-phi")
    assert "the queue is full" in (await whole.get(f"/messages/{HELD}")).text


async def test_a_dry_run_shows_what_would_leave(site: Site) -> None:
    """By segment; the receiver is not asked, and that is said."""
    shown = await said(site, "messages", "replay", str(HELD), "--dry-run")
    assert "  radiology: would be delivered would-be-sent\n    MLLP mllp://127.0.0.1:" in shown
    assert "\n      EVN||20250701101500\n      PID|1||RB-2^^^RVB^MR||Quintero^Marisol||19840229|F\n" in shown
    assert "A relay's receiver is not asked" in shown
    found = await site.act("messages.rehearse", entry=HELD)
    assert {one["destination"]: one["type"] for one in found["destinations"]} == {
        "archive": "mllp",
        "interchange": "fhir",
        "radiology": "mllp",
    }
    person = await site.person("operator")
    await person.get(f"/messages/{HELD}")
    page = (await person.post(f"/messages/{HELD}/rehearse")).text
    assert "The message would leave as it came in." in page
    only = await said(site, "messages", "replay", str(RELAYED), "--dry-run")
    assert "against the server as it is now" not in only


async def test_tables_say_what_each_destination_is(site: Site) -> None:
    """FHIR and its version, or a relay, on page and terminal."""
    rows = await said(site, "destinations", "list")
    assert [row.split("\t")[:2] for row in rows.splitlines()[1:]] == [
        ["archive", "relay"],
        ["interchange", "FHIR R4"],
        ["radiology", "relay"],
    ]
    page = (await (await site.person("operator")).get("/channels")).text
    assert 'data-label="Type">relay</td>' in page
    assert 'data-label="Type">FHIR R4</td>' in page


async def test_a_relay_that_is_down_and_one_that_holds_its_feed(site: Site) -> None:
    """Both are urgent, in words: nothing reaches them."""
    found = await site.act("status.show")
    said_of = {one["destination"] or one["code"]: one for one in found["incidents"]}
    assert said_of["archive"]["sentence"] == "archive does not answer: connection refused."
    assert "(of a relay `host` and `port`)" in said_of["archive"]["next_step"]

    async def held() -> bool:
        return any(one["kind"] == "held-lanes" for one in await site.act("alerts.list"))

    async with asyncio.timeout(60):
        while not await held():  # noqa: ASYNC110 - another process opens it
            await asyncio.sleep(0.1)  # the watch looks on its own
    (alert,) = (one for one in await site.act("alerts.list") if one["kind"] == "held-lanes")
    assert alert["sentence"] == (
        "radiology gets nothing more until somebody decides: 1 held, 1 waiting behind it in the order of the feed."
    )
    assert alert["severity"] == "urgent"


async def test_a_patient_has_no_record_at_a_relay(site: Site) -> None:
    """It is left out, and never said not to answer."""
    shown = await said(site, "patients", "show", "RB-3")
    assert "Held at radiology behind 2" in shown
    assert "At interchange\n" in shown
    assert "At radiology\n" not in shown
    assert "At archive\n" not in shown


async def test_what_only_relays_get_says_so(site: Site) -> None:
    """In the list, on the page, and by an explanation, which never calls it refused."""
    assert "relayed unhandled-message" in await said(site, "messages", "list", "--event", "R01")
    page = (await (await site.person("operator")).get(f"/messages/{RELAYED}")).text
    assert "only relays got it (unhandled-message)" in page
    shown = await said(site, "messages", "explain", str(RELAYED))
    assert shown.startswith("R01 R1: filter (unhandled-message)")
    assert "  sent to the relay archive as it came in, and to no FHIR server: unhandled-message\n" in shown
    assert "  not sent to the relay radiology: unhandled-message\n" in shown


async def test_an_explanation_names_each_relay(site: Site) -> None:
    """As it came in; asked for the relay alone there is nothing else, as it has no mapping."""
    shown = await said(site, "messages", "explain", str(DELIVERED), "--element", "Patient.birthDate")
    assert "  sent to the relay radiology as it came in\n" in shown
    alone = await said(site, "messages", "explain", str(DELIVERED), "--destination", "radiology")
    assert alone == "sent to the relay radiology as it came in\n"
    page = (await (await site.person("viewer-phi")).get(f"/messages/{DELIVERED}/explain")).text
    assert "Sent to the relay radiology as it came in." in page


async def test_no_mapping_of_a_relay_is_shown(site: Site) -> None:
    """A relay is no choice of the playground, and commands that show mappings say what it is."""
    file = site.rig.folder / "channels" / "riverbend-adt.yaml"
    for words in (("coverage", "samples"), ("explain", "samples/01-a28-add-person.hl7")):
        done = await asyncio.to_thread(ran, "mappings", *words, "--channel", str(file), "--destination", "radiology")
        assert done.returncode == 2
        assert "radiology is a relay: it gets messages as they are, and no mapping is asked for them" in done.stderr
    answer = await site.rig.ask("mappings.try", channel="riverbend-adt", destination="radiology", message="TVNI")
    assert "radiology is a relay" in answer["error"]


async def test_a_message_is_found_by_the_number_that_it_left_with(site: Site) -> None:
    """Once a relay has sent it; a number that nothing was sent with finds nothing."""
    rows = await site.act("messages.list", control_id=own_control_id(DELIVERED))
    assert [one["entry"] for one in rows["entries"]] == [DELIVERED]
    assert (await site.act("messages.list", control_id=own_control_id(RELAYED)))["entries"] == []
    assert [one["entry"] for one in (await site.act("messages.list", control_id="C1"))["entries"]] == [DELIVERED]
    newest = await site.act("messages.list", control_id=own_control_id(DELIVERED), before=DELIVERED)
    assert newest["entries"] == []


async def test_in_shadow_nothing_leaves(tmp_path: Path) -> None:
    """The entry ends as in shadow at any destination; what would have changed at servers says nothing of a relay."""
    async with Receiver() as receiver, relaying(tmp_path, relay(receiver.port), fhir=False, mode="shadow") as rig:
        await send_messages(*await rig.address(), [message("C1", "RB-1")])
        await rig.until(lambda rows: [(row.state, row.reason) for row in rows] == [("filtered", "shadow")])
        shown = (await command("messages", "show", "1", data=tmp_path / "data")).stdout
        assert "would-be-delivered would-be-sent" in shown
        assert "planned" not in shown
        compared = await asyncio.to_thread(ran, "mappings", "diff", "--server", "--data", str(tmp_path / "data"))
        assert compared.stdout.startswith("0 messages")
        assert receiver.got == []


@pytest.mark.parametrize("control_id", ["ADT", "ADT01", "ADT-1", "ADT1.", "adt1", "XADT1", "ADT" + "9" * 30, "ADT１"])
def test_what_is_no_number_of_ours(control_id: str) -> None:
    """A sender's own number that looks like one is its own only."""
    assert entry_of_own(control_id) is None


def test_attempts_are_kept_as_the_journal_names_them() -> None:
    """The stations do not know each other; each says the same word."""
    assert (METHOD, APPLICATION) == (SENT, LATER)


def test_own_numbers_lead_back() -> None:
    """Each to its entry, within the 20 characters that MSH-10 has in old versions."""
    assert [entry_of_own(own_control_id(seq)) for seq in (1, 37, 2**53)] == [1, 37, 2**53]
    assert len(own_control_id(2**53)) <= 20
