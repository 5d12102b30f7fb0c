"""The page on FHIR clients: its Python runs as it stands, and its table says what the service does."""

import re
from pathlib import Path
from typing import Any, Final

import pytest

from tests.interchange.kit import BASES, Running, issue, patient

pytestmark = pytest.mark.text

PAGE: Final = (Path(__file__).parents[2] / "engine/interchange/clients.md").read_text()
BLOCKS: Final = dict(re.findall(r"^## (\S+)\n.*?^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))


@pytest.mark.parametrize(("client", "families"), [("fhirpy", {"Quintero"}), ("fhirclient", {"Osei"})])
def test_the_python_of_the_page_runs(
    own_service: Running, monkeypatch: pytest.MonkeyPatch, client: str, families: set[str]
) -> None:
    """What a reader copies creates, updates and finds a patient, whose second version is there."""
    monkeypatch.setenv("NO_PROXY", "*")
    names: dict[str, Any] = {"URL": own_service.url, "TOKEN": own_service.token("physician")}
    exec(compile(BLOCKS[client], f"clients.md: {client}", "exec"), names)  # noqa: S102 - the page's own text
    found = own_service.ask("GET", "/fhir/R4/Patient").json()["entry"]
    assert {one["resource"]["name"][0]["family"] for one in found} == families
    assert [one["resource"]["meta"]["versionId"] for one in found] == ["2"]
    if client == "fhirpy":
        assert names["chart"]["entry"][1]["search"]["mode"] == "include"
        assert {one["resource"]["resourceType"] for one in names["everything"]["entry"]} == {"Patient", "Observation"}
        assert [one.id for one in names["found"]] == [names["marisol"].id]
        assert "gender" not in names["names"][0]
    else:
        assert [one.id for one in names["people"]] == [names["made"]["id"]]


def test_what_surprises(service: Running, base: str) -> None:
    """Each row of the page's table is what the service does."""
    made = service.create(base, name=[{"family": "Surprise", "given": ["A"]}])
    address = f"{base}/Patient"
    assert service.ask("GET", f"{address}?birthdate=ge1980-01-01&birthdate=lt1990-01-01").status_code == 400
    assert service.ask("GET", f"{address}?_count=101").status_code == 400
    assert service.ask("GET", f"{base}/Observation?code=2345-7").status_code == 400
    headers = {"if-none-exist": "identifier=https://mrn.riverbend.example|M-1"}
    assert service.ask("POST", address, json=patient(), headers=headers).status_code == 400
    changed = {**made, "gender": "male"}
    assert service.ask("PUT", f"{address}/{made['id']}", json=changed).status_code == 200
    stale = {"if-match": 'W/"1"'}
    assert service.ask("PUT", f"{address}/{made['id']}", json=changed, headers=stale).status_code == (
        409 if base == BASES["STU3"] else 412
    )
    assert "shoe-size" in issue(service.ask("GET", f"{address}?shoe-size=44"), 400, "not-supported")["diagnostics"]
    lenient = service.ask("GET", f"{address}?shoe-size=44", headers={"prefer": "handling=lenient"}).json()
    assert {one["search"]["mode"] for one in lenient["entry"]} == {"match", "outcome"}
