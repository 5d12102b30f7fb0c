"""An order placed at the chart pages: laboratory, tests, what it asks, and what the laboratory is told."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from engine.clock import now
from engine.config.settings import shipped
from engine.interchange.orders.compendium.answers import unanswered, wrong
from engine.interchange.orders.compendium.files.read import load_file
from engine.interchange.orders.compendium.load import load
from engine.interchange.web.viewer.questions import answers_to, questions_of
from tests.interchange.compendium.questionnaires import item, questionnaire, response, when
from tests.interchange.kit import Inside
from tests.interchange.viewer.people import Person, hidden, pages, register, viewer

SAMPLE = shipped("samples") / "compendium/cedar-valley.yaml"
LAB = "cedar-valley"
Json = Any


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inside]:
    """A service with the sample's laboratory, whose chart pages are open."""
    with pages(tmp_path_factory.mktemp("ordering")) as found:
        load(found.app.service.configuration, found.database, "riverbend", load_file(SAMPLE), now, lambda *_: None)
        yield found


def orders(site: Inside, patient: str) -> list[Json]:
    """Return the orders of a patient, oldest first."""
    found = site.ask("GET", f"/fhir/R4/RequestGroup?patient={patient}").json()["entry"]
    return [one["resource"] for one in found]


def test_where_no_laboratory_takes_orders(tmp_path: Path) -> None:
    """A chart offers to place an order only where a laboratory takes any."""
    with pages(tmp_path) as here:
        where = f"/chart/patients/{here.create()['id']}/orders"
        person = Person(here)
        assert "Place an order" not in person.open(where).text
        load(here.app.service.configuration, here.database, "riverbend", load_file(SAMPLE), now, lambda *_: None)
        assert "Place an order" in person.open(where).text


def test_an_order_with_answers(site: Inside) -> None:
    """From the orders of a chart to a new one: what is missing is asked for again, and nothing entered is lost."""
    patient = site.create()["id"]
    person = Person(site)
    path = f"/chart/patients/{patient}/orders"
    assert f'href="{path}/new"' in person.open(path).text
    assert f'href="{path}/new/{LAB}"' in person.open(f"{path}/new").text
    offered = person.open(f"{path}/new/{LAB}")
    assert offered.text.count('type="checkbox"') == 29
    assert person.open(f"{path}/new/{LAB}?title=glucose").text.count('type="checkbox"') == 2
    assert "Choose at least one test" in person.send(f"{path}/new/{LAB}", offered).text
    asked = person.send(f"{path}/new/{LAB}", offered, **{"test:LIPID": "1", "test:GLU": "1"})
    for part in ("Has the patient fasted", "required", "Hours since the last meal (h)", "Nothing is asked", "= Yes"):
        assert part in asked.text, part
    refused = person.send(f"{path}/new/{LAB}", asked, decision="place", **{"ask:LIPID:hours-fasted": "9"})
    assert "Lipid panel, Has the patient fasted for at least 8 hours?: please answer." in refused.text
    assert 'value="9"' in refused.text
    assert orders(site, patient) == []
    answers = {"ask:LIPID:fasting": "0", "ask:LIPID:hours-fasted": "9"}
    placed = person.send(f"{path}/new/{LAB}", refused, decision="place", **answers)
    assert (placed.url.path, "The order was placed" in placed.text) == (path, True)
    for part in ("Lipid panel", "Glucose", "pending", "Cedar Valley Reference Laboratory", "Ama Osei"):
        assert part in placed.text, part
    [order] = orders(site, patient)
    assert order["author"] == {"display": "Ama Osei"}
    [kept] = [
        one
        for one in site.ask("GET", f"/fhir/R4/ServiceRequest?patient={patient}").json()["entry"]
        if "supportingInfo" in one["resource"]
    ]
    given = kept["resource"]["contained"][0]["item"]
    assert [(one["linkId"], one["answer"]) for one in given] == [
        ("fasting", [{"valueCoding": {"code": "Y", "display": "Yes"}}]),
        ("hours-fasted", [{"valueInteger": 9}]),
    ]
    # The form sent again, as a browser does that is reloaded: it is the same order.
    person.send(f"{path}/new/{LAB}", refused, decision="place", **answers)
    assert len(orders(site, patient)) == 1


def test_what_is_no_answer(site: Inside) -> None:
    """A number that is none is told with its question, and the order is not placed."""
    patient = site.create()["id"]
    person = Person(site)
    path = f"/chart/patients/{patient}/orders/new/{LAB}"
    asked = person.send(path, person.open(path), **{"test:LIPID": "1"})
    refused = person.send(path, asked, decision="place", **{"ask:LIPID:fasting": "0", "ask:LIPID:hours-fasted": "many"})
    assert "Hours since the last meal: this is no answer." in refused.text
    assert orders(site, patient) == []
    assert person.send(path, asked, decision="place", **{"ask:LIPID:fasting": "99"}).status_code == 200
    assert orders(site, patient) == []


def test_who_may_order(site: Inside) -> None:
    """A nurse may; whose application may only read is shown no way to an order, and refused."""
    patient = site.create()["id"]
    path = f"/chart/patients/{patient}/orders"
    assert f'href="{path}/new"' in Person(site, "nurse.lind").open(path).text
    before = site.app.service.configuration
    register(site, chart=viewer(site, "riverbend", scopes=("user/*.read",)))
    try:
        person = Person(site)
        page = person.open(path)
        assert (page.status_code, f'href="{path}/new"' in page.text) == (200, False)
        assert person.open(f"{path}/new").status_code == 403
        assert person.send(f"{path}/new/{LAB}", page, decision="place", **{"test:GLU": "1"}).status_code == 403
    finally:
        site.app.service.configuration = before
    assert orders(site, patient) == []


def test_a_form_of_another_site_orders_nothing(site: Inside) -> None:
    """Without this session's proof no order is placed."""
    patient = site.create()["id"]
    person = Person(site)
    path = f"/chart/patients/{patient}/orders/new/{LAB}"
    forged = {"test:GLU": "1", "decision": "place", "number": "1"}
    assert person.http.post(path, data=forged).status_code == 403
    proof = hidden(person.open(path))["form"]
    stranger = httpx.post(f"{site.url}{path}", data={**forged, "form": proof})
    assert stranger.status_code == 403
    assert orders(site, patient) == []


def test_every_kind_of_question() -> None:
    """What is entered in each control is an answer that the laboratory's rules take; what is empty is none."""
    asked = questionnaire(
        item("b", "boolean", required=True),
        item("d", "decimal"),
        item("i", "integer"),
        item("q", "quantity"),
        item("day", "date"),
        item("at", "dateTime"),
        item("t", "time"),
        item("s", "string"),
        item("x", "text"),
        item("c", "choice", answerOption=[{"valueCoding": {"code": "A"}}, {"valueInteger": 7}]),
        item("o", "open-choice", answerOption=[{"valueCoding": {"code": "B", "display": "Bee"}}]),
        item("p", "open-choice", answerOption=[{"valueCoding": {"code": "B"}}]),
        item("g", "group", item("inner", "string", enableWhen=[when("b", answerBoolean=True)])),
        item("empty", "string"),
    )
    entered = {
        "b": "false",
        "d": "1.50",
        "i": "3",
        "q": "2.5",
        "day": "2025-07-01",
        "at": "2025-07-01T10:30",
        "t": "10:30",
        "s": " a ",
        "x": "two\nlines",
        "c": "1",
        "o": "Bee",
        "p": "another",
        "inner": "deep",
        "empty": " ",
    }
    items, bad = answers_to(asked, {f"ask:{name}": text for name, text in entered.items()}, "ask:")
    assert bad == []
    assert wrong(asked, response(*items)) == ()
    assert unanswered(asked, response(*items), collected=False) == ()
    told = {one["linkId"]: str(next(iter(one["answer"][0].values()))) for one in items}
    assert told == {
        "b": "False",
        "d": "1.50",
        "i": "3",
        "q": "{'value': Decimal('2.5')}",
        "day": "2025-07-01",
        "at": "2025-07-01T10:30:00Z",
        "t": "10:30:00",
        "s": "a",
        "x": "two\nlines",
        "c": "7",
        "o": "{'code': 'B', 'display': 'Bee'}",
        "p": "another",
        "inner": "deep",
    }
    shown = {question.link_id: question for question in questions_of(asked, "ask:")}
    assert (shown["b"].required, shown["inner"].condition) == (True, "“b” = Yes")
    for name, text in (("d", "many"), ("d", "NaN"), ("i", "1.5"), ("day", "soon"), ("at", "soon"), ("c", "9")):
        assert answers_to(asked, {f"ask:{name}": text}, "ask:") == ([], [f"ask:{name}"]), (name, text)
