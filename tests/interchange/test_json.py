"""JSON of FHIR: padding is taken, control characters are not, and a refusal names the element."""

from typing import Any

import pytest

from tests.interchange.kit import Running, issue, merge_body, patient
from tests.interchange.least import least, version_of

BESIDE = {"extension": [{"url": "http://x.example", "valueString": "b"}]}
JSON = {"content-type": "application/fhir+json", "prefer": "create-always"}
PADDED = [
    {"family": "Padded", "given": [None, "Ines"], "_given": [BESIDE, None]},
    {"family": "Padded", "given": ["Marisol", "Ines"], "_given": [None, BESIDE]},
    {"family": "Padded", "given": ["Marisol", None, "Ines"], "_given": [None, BESIDE, BESIDE]},
    {"family": "Padded", "given": ["Marisol"], "prefix": [None], "_prefix": [BESIDE]},
]


@pytest.mark.parametrize("name", PADDED)
def test_padding(service: Running, base: str, name: dict[str, Any]) -> None:
    """C-118: nulls that pad a list of primitives are legal, kept on both bases, searched, previewed and merged."""
    body = patient(name=[name], address=[{"line": [None, "12 Alder Way"], "_line": [BESIDE, None]}])
    made = service.ask("POST", f"{base}/Patient", json=body, headers=JSON)
    assert made.status_code == 201, made.text
    patient_id = made.json()["id"]
    for other in ("/fhir/R4", "/fhir"):
        kept = service.ask("GET", f"{other}/Patient/{patient_id}").json()
        assert (kept["name"], kept["address"]) == (body["name"], body["address"])
        found = service.ask(
            "GET", f"{other}/Patient?family=padded&given={name['given'][-1] or 'Marisol'}&_id={patient_id}"
        )
        assert found.json()["total"] == 1
    target = service.create(base)["id"]
    for preview in (True, False):
        merged = service.ask("POST", f"{base}/Patient/$merge", json=merge_body(patient_id, target, preview=preview))
        assert merged.status_code == 200, merged.text


@pytest.mark.parametrize(
    ("name", "location"),
    [
        pytest.param({"given": ["Marisol", None]}, "Patient.name[0].given[1]", id="nothing beside it"),
        pytest.param({"given": [None, "M"], "_given": [None, BESIDE]}, "Patient.name[0].given[0]", id="beside another"),
        pytest.param({"given": ["M"], "_given": [BESIDE, None]}, "Patient.name[0]._given[1]", id="beside no value"),
        pytest.param({"given": ["M"], "text": None}, "Patient.name[0].text", id="no list"),
        pytest.param({"given": ["M"], "period": [None]}, "Patient.name[0].period", id="no primitive"),
    ],
)
def test_nulls_that_pad_nothing(service: Running, base: str, name: dict[str, Any], location: str) -> None:
    """C-118: any other null is 400 where it stands."""
    answer = service.ask("POST", f"{base}/Patient", json=patient(name=[{"family": "Padded", **name}]), headers=JSON)
    issue(answer, 400, "structure")
    assert location in [one["location"][0] for one in answer.json()["issue"]]


CONTROLS = [chr(code) for code in range(1, 32) if chr(code) not in "\t\n\r"]


@pytest.mark.parametrize(
    ("element", "location"),
    [
        pytest.param({"name": [{"family": "A{}B", "given": ["C"]}]}, "Patient.name[0].family", id="string"),
        pytest.param({"language": "e{}n"}, "Patient.language", id="code"),
        pytest.param({"implicitRules": "http://x.example/{}"}, "Patient.implicitRules", id="uri"),
        pytest.param(
            {"extension": [{"url": "http://x.example", "valueString": "{}"}]},
            "Patient.extension[0].valueString",
            id="value",
        ),
        pytest.param(
            {"extension": [{"url": "http://x.example", "valueMarkdown": "a{}"}]},
            "Patient.extension[0].valueMarkdown",
            id="markdown",
        ),
        pytest.param({"text": {"status": "generated", "div": "<div>{}</div>"}}, "Patient.text.div", id="xhtml"),
    ],
)
def test_control_characters(service: Running, base: str, element: dict[str, Any], location: str) -> None:
    """C-119: no text of FHIR has control characters but tab, line feed and carriage return: 422 at the element."""
    for control in CONTROLS:
        answer = service.ask("POST", f"{base}/Patient", json=patient(**_with(element, control)), headers=JSON)
        assert location in [one["location"][0] for one in answer.json()["issue"]]
        issue(answer, 422, "invalid")


def test_blanks_that_texts_have(service: Running, base: str) -> None:
    """C-119: tab, line ends and the blanks of other scripts are text."""
    made = service.create(base, name=[{"family": "A\tB\nC\rD\u00a0E\u2003F\u3000G", "given": ["\u0085H"]}])
    assert service.ask("GET", f"{base}/Patient/{made['id']}").json()["name"] == made["name"]


def _with(part: Any, control: str) -> Any:
    if isinstance(part, dict):
        return {name: _with(value, control) for name, value in part.items()}
    if isinstance(part, list):
        return [_with(one, control) for one in part]
    return part.replace("{}", control)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        pytest.param(b'{"resourceType":"Patient",}', "line 1, column 26", id="syntax"),
        pytest.param(b'{\n"resourceType": "Patient"\n"x": 1}', "line 3, column 1", id="further down"),
    ],
)
def test_where_json_ends(service: Running, base: str, content: bytes, text: str) -> None:
    """N-261: a body that is no JSON is refused with line and column."""
    refused = issue(service.ask("POST", f"{base}/Patient", content=content, headers=JSON), 400, "structure")
    assert text in refused["diagnostics"]


def test_elements_that_there_are_not(service: Running, base: str) -> None:
    """N-261: each element that a type does not have is named, by location and expression."""
    body = least(
        "Observation", service.create(base)["id"], version_of(base), colour="red", component=[{"code": {"txt": "x"}}]
    )
    answer = service.ask("POST", f"{base}/Observation", json=body)
    issue(answer, 400, "structure")
    told = [(one["location"], one["expression"]) for one in answer.json()["issue"]]
    paths = ["Observation.colour", "Observation.component[0].code.txt"]
    assert sorted(told) == [([path], [path]) for path in paths]


@pytest.mark.parametrize("div", ["<div><script>x</script></div>", '<div><img src="x" onerror="x"/></div>'])
def test_narratives_that_act_are_refused(service: Running, base: str, div: str) -> None:
    """txt-1: by create, update, patch and in what is contained, a narrative with active content is 422 at its place."""
    text = {"status": "generated", "div": div}
    refused = service.ask("POST", f"{base}/Patient", json=patient(text=text), headers=JSON)
    assert issue(refused, 422, "invalid")["location"] == ["Patient.text.div"]
    made = service.create(base, text={"status": "generated", "div": "<div>Ana <b>Quintero</b></div>"})
    path = f"{base}/Patient/{made['id']}"
    issue(service.ask("PUT", path, json={**made, "text": text}), 422, "invalid")
    steps = [{"op": "replace", "path": "/text/div", "value": div}]
    patched = service.ask("PATCH", path, json=steps, headers={"content-type": "application/json-patch+json"})
    issue(patched, 422, "invalid")
    inner = [{"resourceType": "Organization", "id": "o", "name": "x", "text": text}]
    body = least("Observation", made["id"], version_of(base), contained=inner, performer=[{"reference": "#o"}])
    refused = service.ask("POST", f"{base}/Observation", json=body)
    assert issue(refused, 422, "invalid")["location"] == ["Observation.contained[0].text.div"]
    assert service.ask("GET", path).json() == made
