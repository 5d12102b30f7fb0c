"""A patient's page: what it shows, to whom, with what on record, and what is left where a destination is silent."""

import re
from collections.abc import AsyncIterator

import pytest

from engine.ops.sender.line import send_messages
from tests.flow.rig import SYSTEM
from tests.ops.web.conftest import Site
from tests.ops.web.story import BEHIND, FIRST, HELD, HELD_TOO, MERGE, event, night


@pytest.fixture(scope="module")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    """The night's engine; shared by the tests of this module."""
    async with night(tmp_path_factory.mktemp("patient")) as made:
        yield made


async def test_everything_about_a_patient_is_on_one_page(site: Site) -> None:
    """The record at the destination now, both numbers, the merge, the visit and all five messages, by any of them."""
    operator = await site.person("operator")
    answer = await operator.get(f"/messages/{FIRST}/patient")
    assert answer.status_code == 200
    page = operator.page
    assert "<h1><bdi>Quintero, Marisol</bdi></h1>" in page  # PID-5
    assert "1984-02-29, female" in page  # Patient.birthDate, Patient.gender
    for said in ("RB-10", "RB-11", "merged away into", "Merges and links", "1 Elm Terrace, 97301 Keswick"):
        assert said in page, said
    assert "V-1" in page  # Encounter.identifier
    assert "5E 512 A" in page  # Encounter.location, the active one
    for entry in range(FIRST, MERGE + 1):
        assert f'<a class="num" href="/messages/{entry}">{entry}</a>' in page
    assert f"/messages/{HELD}" not in page
    assert re.search(
        r'<p class="notice good" id="verdict"><span><b>Delivered:</b> all 5 messages are at interchange', page
    )
    assert "Held for this patient" not in page


async def test_what_is_held_for_a_patient_is_said_with_its_reason(site: Site) -> None:
    """The hold stands first, with what it means and how many wait behind it; the one that waits is listed."""
    operator = await site.person("operator")
    await operator.get(f"/messages/{BEHIND}/patient")
    assert "Alderton, Hugo" in operator.page
    assert re.search(r'id="verdict"><span><b>Held behind 6 since [^<]+:</b> the destination requires', operator.page)
    assert "; 1 message waits.</span>" in operator.page
    assert "Held for this patient" in operator.page
    assert "missing-required" in operator.page
    assert "No record there has one of the patient's numbers." in operator.page
    shown = (await site.act("patients.show", entry=BEHIND))["held"]
    assert [(one["entry"], one["reason"], one["waiting"]) for one in shown] == [(HELD, "missing-required", 1)]


async def test_each_number_knows_its_history(site: Site) -> None:
    """First and last entry of each number, and what it stands for at the destination: current, or merged away."""
    found = await site.act("patients.show", entry=MERGE)
    numbers = {one["value"]: one for one in found["numbers"]}
    assert [(numbers[name]["first"], numbers[name]["last"]) for name in ("RB-10", "RB-11")] == [(1, 5), (2, 5)]
    assert [numbers[name]["at"][0]["status"] for name in ("RB-10", "RB-11")] == ["current", "merged-away"]
    assert numbers["RB-11"]["at"][0]["survivor"] == numbers["RB-10"]["at"][0]["patient"]
    (merge,) = found["merges"]
    assert (merge["source"], merge["survivor"], merge["entry"]) == (f"{SYSTEM}|RB-11", f"{SYSTEM}|RB-10", MERGE)
    records = found["destinations"][0]["records"]
    assert [(record["merged"], [link["kind"] for link in record["links"]]) for record in records] == [
        (False, ["replaces"]),
        (True, ["replaced-by"]),
    ]


async def test_messages_come_a_page_at_a_time(site: Site) -> None:
    """`before` of one page begins the next one, and the last says that there is nothing older."""
    first = await site.act("patients.show", entry=FIRST, limit=3)
    assert [one["entry"] for one in first["messages"]] == [5, 4, 3]
    second = await site.act("patients.show", entry=FIRST, limit=3, before=first["before"])
    assert ([one["entry"] for one in second["messages"]], second["before"]) == ([2, 1], None)


async def test_a_number_a_name_and_a_control_id_are_found_on_every_page(site: Site) -> None:
    """One field finds all three; a patient's number leads to the patient; no address holds what was looked for."""
    operator = await site.person("operator")
    for asked, address in (
        ("RB-11", f"/messages/{MERGE}/patient?lane="),
        (f"{SYSTEM}|RB-10", f"/messages/{MERGE}/patient?lane="),
        ("N3", "/messages/3"),
        ("3", "/messages/3"),
        ("castellan", f"/messages/{HELD_TOO}/patient?lane="),
        ("lderto", f"/messages/{BEHIND}/patient?lane="),
        ("V-1", f"/messages/{MERGE - 1}/patient?lane="),
        ("rb-2", "/find?search="),
        ("nobody at all", "/find?search="),
    ):
        await operator.get("/channels")
        answer = await operator.post("/find", {"find": asked})
        assert answer.headers["location"].startswith(address), asked
        assert asked == "3" or asked not in answer.headers["location"]
        await operator.get(answer.headers["location"])
        assert "RB-11" in operator.page or "RB-1" not in asked
    await operator.get("/channels")
    assert (await operator.post("/find", {"find": " "})).headers["location"] == "/messages"


async def test_the_search_of_the_first_page_asks_what_happened(site: Site) -> None:
    """The field of the overview is the same search: part of a name leads to the page of the patient and the verdict."""
    operator = await site.person("operator")
    await operator.get("/overview")
    assert '<form method="post" action="/find" class="pair" role="search" aria-label="What happened?">' in operator.page
    answer = await operator.post("/find", {"find": "uinter"})
    await operator.get(answer.headers["location"])
    assert '<p class="notice good" id="verdict"><span><b>Delivered:</b> all 5 messages' in operator.page


async def test_several_patients_are_listed_by_name(site: Site) -> None:
    """Part of a number that three share: each once, in the order of names, each look on record."""
    operator = await site.person("operator")
    await operator.get("/channels")
    answer = await operator.post("/find", {"find": "rb-2"})
    await operator.get(answer.headers["location"])
    names = re.findall(r'patient\?lane=\d+"><bdi>([^<]*)</bdi>', operator.page)
    assert names == ["Alderton, Hugo", "Castellan, Greta"]
    rows = await site.act("audit.list", patient="RB-21", limit=100)
    assert "messages.named" in {row["act"] for row in rows}
    assert "rb-2" not in str(await site.act("audit.list", limit=200)).casefold()


async def test_nothing_found_says_what_was_searched(site: Site) -> None:
    """Which kinds of things, in how many messages since when, why not all, and what to try; also for a viewer."""
    operator, viewer = await site.person("operator"), await site.person("viewer")
    for person, asked, said in (
        (operator, "giraffe", ("parts (from 3 characters) of names", "fewer letters of the name")),
        (operator, "zz", ("type at least 3 characters of a name or number",)),
        (viewer, "giraffe", ("whole control IDs and entry numbers, in", "MSH-10")),
    ):
        await person.get("/channels")
        answer = await person.post("/find", {"find": asked})
        await person.get(answer.headers["location"])
        for part in ("Nothing was found", "messages, the oldest of 20", "a search with all filters", *said):
            assert part in person.page, (asked, part)
    assert "names" not in viewer.page.partition("Nothing was found")[2].partition("</section>")[0]


async def test_parts_are_for_who_may_see_patients(site: Site) -> None:
    """Neither the search by parts nor a name by a token of a role without patients; the counts are for all."""
    token = await site.token("viewer", "v-parts")
    viewer = await site.person("viewer")
    headers = {"authorization": f"Bearer {token}"}
    refused = await viewer.http.post("/api/v1/patients/search", json={"text": "quint"}, headers=headers)
    assert refused.status_code == 403
    allowed = await viewer.http.get("/api/v1/messages/span", headers=headers)
    assert allowed.json()["messages"] >= 8


async def test_who_may_not_see_patients_sees_none_of_it(site: Site) -> None:
    """The page is refused; the message page has neither name nor link; the search finds by control ID alone."""
    viewer = await site.person("viewer")
    assert (await viewer.get(f"/messages/{FIRST}/patient")).status_code == 403
    await viewer.get(f"/messages/{FIRST}")
    assert "Quintero" not in viewer.page
    assert "/patient" not in viewer.page
    assert "MRN" not in viewer.page
    assert (await viewer.post("/find", {"find": "N3"})).headers["location"] == "/messages/3"
    for asked in ("RB-10", "castellan"):
        await viewer.get("/channels")
        answer = await viewer.post("/find", {"find": asked})
        await viewer.get(answer.headers["location"])
        assert "Nothing was found" in viewer.page
    for name, given in (("patients.find", {"patient": "RB-10"}), ("messages.named", {"entries": [1]})):
        token = await site.token("viewer", f"v-{name}")
        answer = await viewer.http.post(
            f"/api/v1/{name.replace('.', '/')}", json=given, headers={"authorization": f"Bearer {token}"}
        )
        assert answer.status_code == 403, name


async def test_each_look_is_on_record_under_the_patient(site: Site) -> None:
    """Who looked at a patient, found one, or was shown names: found by the patient's number, before it was shown."""
    operator = await site.person("operator")
    await operator.get(f"/messages/{FIRST}/patient")
    await site.act("patients.find", patient=f"{SYSTEM}|RB-10")
    await site.act("messages.named", entries=[1, 3])
    rows = await site.act("audit.list", patient=f"{SYSTEM}|RB-10", limit=100)
    acts = [(row["act"], row["actor"]) for row in rows]
    assert ("patients.show", "operator") in acts
    assert {act for act, _ in acts} >= {"patients.show", "patients.find", "messages.named"}


async def test_an_entry_that_names_two_patients_shows_one_and_names_the_other(site: Site) -> None:
    """After an A24 (a link) each of the two has a page of their own, and each page leads to the other."""
    rows = len(site.rig.rows())
    other = "PID|2||RB-31^^^RVB^MR||Holloway^Greta||19500101|F\r"
    await send_messages(
        *await site.rig.address(),
        [
            event("A28^ADT_A05", "L1", "RB-30", "140000", name="Dunmore^Felix"),
            event("A24^ADT_A24", "L2", "RB-30", "140100", other, name="Dunmore^Felix"),
        ],
    )
    await site.rig.until(lambda found: len(found) == rows + 2 and all(one.state != "received" for one in found))
    operator = await site.person("operator")
    await operator.get(f"/messages/{rows + 2}/patient")
    assert "names another patient, too" in operator.page
    found = await site.act("patients.show", entry=rows + 2)
    (second,) = found["others"]
    shown = await site.act("patients.show", entry=rows + 2, lane=second["lane"])
    assert {one["value"] for one in found["numbers"]} | {one["value"] for one in shown["numbers"]} == {"RB-30", "RB-31"}
    refused = await site.rig.ask("patients.show", entry=rows + 2, lane=999_999)
    assert "names nobody of lane" in str(refused)


async def test_a_destination_that_is_silent_is_named_and_the_rest_is_shown(site: Site) -> None:
    """With the service gone the page says so, and numbers, merge and messages stand as the journal has them."""
    operator = await site.person("operator")
    await site.rig.service.kill()
    try:
        answer = await operator.get(f"/messages/{FIRST}/patient")
    finally:
        await site.rig.service.start()
    assert answer.status_code == 200
    assert "interchange does not answer" in operator.page
    for said in ("RB-11", "merged away into", "Every message", "Quintero, Marisol"):
        assert said in operator.page, said
