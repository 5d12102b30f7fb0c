"""Questionnaires asked at order entry: found by the code of a test, each item under one name, on both bases."""

from itertools import count
from typing import Any

import pytest

from tests.interchange.kit import Running, issue

FRESH = count(1)
LABORATORY = "urn:uuid:f:lab-1"
YES, NO = {"valueCoding": {"code": "Y", "display": "Yes"}}, {"valueCoding": {"code": "N", "display": "No"}}
OPTIONS = {"/fhir/R4": "answerOption", "/fhir": "option"}


def question(name: str, *items: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return an item with its two names, and items within it."""
    return {"id": name, "linkId": name, "type": "group", **({"item": list(items)} if items else {}), **more}


def questionnaire(*items: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return a Questionnaire of some items."""
    return {"resourceType": "Questionnaire", "status": "active", **({"item": list(items)} if items else {}), **more}


def post(service: Running, base: str, body: dict[str, Any]) -> Any:
    """Create a Questionnaire."""
    return service.ask("POST", f"{base}/Questionnaire", json=body)


def names(part: dict[str, Any]) -> list[tuple[str, str]]:
    """Return both names of each item, at every depth."""
    own = [(item["id"], item["linkId"]) for item in part.get("item", ())]
    return own + [pair for item in part.get("item", ()) for pair in names(item)]


@pytest.mark.parametrize("written", sorted(OPTIONS))
def test_found_by_the_code_of_a_test(service: Running, base: str, written: str) -> None:
    """C-430 to C-434: the questions of a test, with all their names and answers, wherever they were written."""
    code = f"T{next(FRESH)}"
    made = questionnaire(
        question("fasting", question("hours", type="integer"), type="choice", **{OPTIONS[written]: [YES, NO]}),
        question("site", question("deep", question("deeper", type="string")), question("flat", type="date")),
        code=[{"system": LABORATORY, "code": code}],
    )
    kept = post(service, written, made).json()["id"]
    found = service.ask("GET", f"{base}/Questionnaire?code={LABORATORY}|{code}").json()
    assert (found["total"], found["entry"][0]["resource"]["id"]) == (1, kept)
    one = found["entry"][0]["resource"]
    assert one == service.ask("GET", f"{base}/Questionnaire/{kept}").json()
    assert names(one) == [(name, name) for name in ("fasting", "site", "hours", "deep", "flat", "deeper")]
    assert one["item"][0][OPTIONS[base]] == [YES, NO]
    assert not {*OPTIONS.values()} - {OPTIONS[base]} & one["item"][0].keys()
    for query in (f"{LABORATORY}|another", f"urn:uuid:f:lab-2|{code}"):
        assert service.ask("GET", f"{base}/Questionnaire?code={query}").json()["total"] == 0
    issue(service.ask("GET", f"{base}/Questionnaire/none"), 404, "not-found")


def test_a_name_that_is_missing_is_the_other_one(service: Running, base: str) -> None:
    """C-431, C-432: of an item with one of the two names the other is made, by create, update and patch."""
    inner = {"linkId": "b", "type": "string"}
    made = post(service, base, questionnaire({"id": "a", "type": "group", "item": [inner]}))
    assert (made.status_code, names(made.json())) == (201, [("a", "a"), ("b", "b")]), made.text
    path = f"{base}/Questionnaire/{made.json()['id']}"
    changed = {**made.json(), "item": [{"linkId": "1.1-c", "type": "display"}]}
    assert names(service.ask("PUT", path, json=changed).json()) == [("1.1-c", "1.1-c")]
    step = {"op": "add", "path": "/item/-", "value": {"id": "d", "type": "display"}}
    patched = service.ask("PATCH", path, json=[step], headers={"content-type": "application/json-patch+json"})
    assert names(patched.json()) == [("1.1-c", "1.1-c"), ("d", "d")]


@pytest.mark.parametrize(
    ("items", "status", "code", "places"),
    [
        pytest.param(
            [question("a", {**question("b"), "linkId": "c"})],
            422,
            "invalid",
            ["item[0].item[0].linkId"],
            id="two names",
        ),
        pytest.param(
            [question("a", question("b")), question("c", question("b"))],
            422,
            "invalid",
            ["item[1].item[0].linkId"],
            id="the name of another",
        ),
        pytest.param(
            [question("a", {"type": "string"}), {"type": "string"}],
            400,
            "required",
            ["item[0].item[0].linkId", "item[1].linkId"],
            id="no name",
        ),
        pytest.param(
            [{"type": "string", "_linkId": {"extension": [{"url": "urn:x", "valueString": "a"}]}}],
            400,
            "required",
            ["item[0].linkId"],
            id="only an extension of one",
        ),
        pytest.param([question("a b")], 422, "invalid", ["item[0].linkId"], id="a blank in a name"),
        pytest.param(
            [question("a", {"linkId": "b\tc", "type": "string"})],
            422,
            "invalid",
            ["item[0].item[0].linkId"],
            id="a tab in a name within",
        ),
        pytest.param([{"id": "a\u00a0b", "type": "string"}], 422, "invalid", ["item[0].linkId"], id="a blank in an id"),
        pytest.param([{"linkId": 1, "type": "string"}], 400, "structure", ["item[0].linkId"], id="no text"),
        pytest.param(["a"], 400, "structure", ["item[0]"], id="no item"),
    ],
)
def test_names_that_are_refused(
    service: Running, base: str, items: list[Any], status: int, code: str, places: list[str]
) -> None:
    """C-431, C-432: two names, a name twice, or none, told at their places; nothing is kept."""
    total = service.ask("GET", f"{base}/Questionnaire").json()["total"]
    answer = post(service, base, {**questionnaire(), "item": items})
    issue(answer, status, code)
    told = {place for one in answer.json()["issue"] for place in one["location"]}
    assert {f"Questionnaire.{place}" for place in places} <= told
    assert service.ask("GET", f"{base}/Questionnaire").json()["total"] == total


def test_names_of_other_types_are_let_be(service: Running, base: str) -> None:
    """C-431: an answer's linkId is its own, without an id, and may stand twice."""
    body = {"resourceType": "QuestionnaireResponse", "status": "completed", "item": [{"linkId": "a"}, {"linkId": "a"}]}
    made = service.ask("POST", f"{base}/QuestionnaireResponse", json=body)
    assert (made.status_code, made.json()["item"]) == (201, body["item"])
