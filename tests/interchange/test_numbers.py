"""Numbers: kept digit for digit or refused, and whatever is kept is read, found, moved and shown on both bases."""

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.database.connection import Connection
from engine.fhir.schema import FhirVersion, definitions
from engine.fhir.versions.names import name_in
from engine.interchange.kernel.exact import read_json, read_strictly, write_json
from engine.interchange.rest.resource.catalogue import CHART, KEPT
from tests.interchange.kit import BASES, Inside, Running, issue, merge_body, patient
from tests.interchange.least import least, version_of
from tests.interchange.resources import resources
from tests.tiers import trials

JSON = {"content-type": "application/fhir+json", "prefer": "create-always"}
WHOLE = frozenset({"integer", "positiveInt", "unsignedInt"})
NUMBERS = WHOLE | {"decimal"}
# Legal numbers of JSON, each with digits that some reader would lose.
EXACT = (
    "99999999999999999999",
    "-99999999999999999999",
    "18446744073709551616",
    "-9223372036854775809",
    "12345678901234567890123456789012345678901234567890",
    "5.10",
    "0.000000000000000000000000000000000000001",
    "123456789012345.123456789012345",
    "3.14159265358979323846264338327950288419716939937510",
    "1e30",
    "1.50E-7",
    "0.0",
    "-0",
    "-0.00",
    "1e308",
)
BEYOND = ("1e400", "-1e400", "1e-400", "1e-99999999999999999999", "1" + 400 * "0")
NO_NUMBER = ("NaN", "Infinity", "-Infinity", "01", "1.", ".5", "+1", "0x10", "1e", "--1")
NO_INTEGER = ("99999999999999999999", "2147483648", "-2147483649", "1.0", "1e2", "1.5", "-0", "-0.0", "100E-2")


def sent(service: Running, path: str, body: dict[str, Any], number: str, method: str = "POST") -> httpx.Response:
    """Send a body in which a number stands for the text NUMBER."""
    content = json.dumps(body).replace('"NUMBER"', number)
    return service.ask(method, path, content=content, headers=JSON)


def exact(answer: httpx.Response) -> Any:
    """Return the JSON of an answer with its decimals, and long numbers, as Decimal."""
    assert answer.status_code in {200, 201}, answer.text
    return json.loads(answer.text, parse_float=Decimal, parse_int=Decimal)


def told_everywhere(service: Running, type_name: str, resource_id: str, patient_id: str) -> Iterator[Any]:
    """Yield a resource as each way to read it tells it, on both bases."""
    for version, base in BASES.items():
        name = name_in(FhirVersion(version), type_name)
        yield exact(service.ask("GET", f"{base}/{name}/{resource_id}"))
        scope = f"&patient={patient_id}" if KEPT[type_name].scoped else ""
        for path in (f"{name}?_id={resource_id}{scope}", f"Patient/{patient_id}/$everything?_count=500"):
            entries = exact(service.ask("GET", f"{base}/{path}"))["entry"]
            found = [entry["resource"] for entry in entries if entry["resource"]["id"] == resource_id]
            assert found, path
            yield found[0]


@pytest.mark.parametrize("number", EXACT)
def test_a_decimal_is_kept_digit_for_digit(service: Running, base: str, number: str) -> None:
    """C-565: whatever JSON allows and a double can hold is stored with its digits; reads, searches, merges go on."""
    patient_id, survivor = service.create()["id"], service.create()["id"]
    body = least("Observation", patient_id, version_of(base), valueQuantity={"value": "NUMBER"})
    kept = exact(sent(service, f"{base}/Observation", body, number))
    told = [kept, *told_everywhere(service, "Observation", kept["id"], patient_id)]
    assert {one["valueQuantity"]["value"].as_tuple() for one in told} == {Decimal(number).as_tuple()}
    assert service.ask("GET", f"{base}/Observation?patient={patient_id}").json()["total"] == 1
    assert (
        sent(service, f"{base}/Observation/{kept['id']}", {**body, "id": kept["id"]}, number, "PUT").status_code == 200
    )
    assert service.ask("POST", f"{base}/Patient/$merge", json=merge_body(patient_id, survivor)).status_code == 200
    told = [*told_everywhere(service, "Observation", kept["id"], survivor)]
    assert {one["valueQuantity"]["value"].as_tuple() for one in told} == {Decimal(number).as_tuple()}


@pytest.mark.parametrize("number", [*BEYOND, *NO_NUMBER])
def test_a_number_that_is_none(service: Running, base: str, number: str) -> None:
    """C-565: what is no number of JSON is 400, one beyond a double 422 at its element; neither is stored."""
    patient_id = service.create()["id"]
    body = least("Observation", patient_id, version_of(base), valueQuantity={"value": "NUMBER"})
    answer = sent(service, f"{base}/Observation", body, number)
    if number in BEYOND:
        assert issue(answer, 422, "invalid")["location"] == ["Observation.valueQuantity.value"]
    else:
        issue(answer, 400, "structure")
    assert service.ask("GET", f"{base}/Observation?patient={patient_id}").json()["total"] == 0


@pytest.mark.parametrize("number", NO_INTEGER)
@pytest.mark.parametrize(
    ("element", "location"),
    [
        pytest.param({"multipleBirthInteger": "NUMBER"}, "Patient.multipleBirthInteger", id="integer"),
        pytest.param({"telecom": [{"value": "1", "rank": "NUMBER"}]}, "Patient.telecom[0].rank", id="positiveInt"),
        pytest.param({"photo": [{"title": "x", "size": "NUMBER"}]}, "Patient.photo[0].size", id="unsignedInt"),
        pytest.param(
            {"extension": [{"url": "http://x.example", "valueInteger": "NUMBER"}]},
            "Patient.extension[0].valueInteger",
            id="a value",
        ),
    ],
)
def test_a_whole_number(service: Running, base: str, element: dict[str, Any], location: str, number: str) -> None:
    """C-565: an integer of FHIR has 32 bits, and neither point nor exponent; anything else is 422 at its element."""
    refused = sent(service, f"{base}/Patient", patient(**element), number)
    assert issue(refused, 422, "invalid")["location"] == [location]


def test_what_was_stored_before_is_read(inside: Inside) -> None:
    """A number of 20 digits that an older release has stored is read on both bases, found and moved."""
    patient_id, survivor = inside.create()["id"], inside.create()["id"]
    answer = inside.ask(
        "POST", "/fhir/R4/Observation", json=least("Observation", patient_id, valueQuantity={"value": 7})
    )
    poison = answer.content.replace(b'"value":7', b'"value":99999999999999999999')

    def work(connection: Connection) -> None:
        connection.execute("UPDATE resource SET body = ? WHERE type = 'Observation'", (poison,))

    inside.run(inside.app.service.store.write_raw(work))
    observation_id = answer.json()["id"]
    told = [*told_everywhere(inside, "Observation", observation_id, patient_id)]
    assert inside.ask("POST", "/fhir/Patient/$merge", json=merge_body(patient_id, survivor)).status_code == 200
    told += told_everywhere(inside, "Observation", observation_id, survivor)
    assert {one["valueQuantity"]["value"] for one in told} == {Decimal(99999999999999999999)}


def test_texts_that_look_like_numbers() -> None:
    """What is read and written again is the same, wherever digits stand."""
    texts = (
        b'{"a":"1:2.5,3.50"}',
        b'{"a":"\\":1.50"}',
        b'{"a":-0,"b":{"c": -0.0}}',
        b'{"a":[{"b":2.50}]}',
        b'{"a":1.0}',
    )
    for text in texts:
        compact = text.replace(b" ", b"")
        assert write_json(read_json(text)) == compact
        assert write_json(read_strictly(text)) == compact
    assert write_json(read_strictly(b'{"a" :1.50,"b":[ 2.50]}')) == b'{"a":1.50,"b":[2.50]}'


# A number for each kind of element, as text.
ANY = {
    "decimal": st.sampled_from(EXACT)
    | st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**40), max_value=10**40).map(str),
    **dict.fromkeys(
        WHOLE, st.sampled_from([*NO_INTEGER, "1", "7", "2147483647"]) | st.integers(-(10**25), 10**25).map(str)
    ),
}


def numbered(draw: st.DrawFn, part: Any, type_name: str, version: FhirVersion) -> Any:
    """Return a part of a resource whose numbers are any, and whose references lead nowhere."""
    if isinstance(part, list):
        return [numbered(draw, one, type_name, version) for one in part]
    elements = definitions(version).get(type_name, {})
    if not isinstance(part, dict) or not elements:
        return Number(draw(ANY[type_name])) if type_name in NUMBERS else part
    made = {
        name: numbered(draw, value, elements[name].type, version) if name in elements else value
        for name, value in part.items()
        if not (type_name == "Reference" and name == "reference")
    }
    return made or {"display": "x"}


class Number(str):
    """The text of a number."""

    __slots__ = ()


def written(value: Any) -> str:
    """Return JSON, with texts of numbers as they are."""
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(name)}:{written(one)}" for name, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(written, value)) + "]"
    return json.dumps(value)


@pytest.fixture(scope="module")
def charts(service: Running) -> dict[str, str]:
    """A patient of its own for each type and base: the fuzz's chart, read whole and merged at the end."""
    return {f"{base} {one.name}": service.create()["id"] for base in BASES.values() for one in CHART}


@pytest.mark.property
@pytest.mark.parametrize("type_name", [one.name for one in CHART])
@settings(max_examples=trials(6), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_numbers_of_every_element(
    service: Running, charts: dict[str, str], base: str, type_name: str, data: st.DataObject
) -> None:
    """C-565: any element of any type with any number is refused, or kept and told the same wherever it is asked for."""
    version = version_of(base)
    name, patient_id = name_in(version, type_name), charts[f"{base} {type_name}"]
    drawn = data.draw(resources(name, version))
    body = numbered(data.draw, drawn, name, version) | least(type_name, patient_id, version)
    text = written(body)
    # Not by `ask`: HL7's schema of STU3 lets extensions have values that its definitions, which that one knows, do not.
    headers = {"authorization": f"Bearer {service.token('physician')}", **JSON}
    answer = service.http.post(f"{service.url}{base}/{name}", content=text.encode(), headers=headers)
    assert answer.status_code in {201, 400, 422}, answer.text
    if answer.status_code == 201:
        sent_digits = sorted(digits(json.loads(text, parse_float=Number, parse_int=Number)))
        assert sorted(digits(json.loads(answer.text, parse_float=Number, parse_int=Number))) == sent_digits
        resource_id = answer.json()["id"]
        for other, path in BASES.items():
            address = f"{service.url}{path}/{name_in(FhirVersion(other), type_name)}/{resource_id}"
            shown = service.http.get(address, headers=headers)
            assert shown.status_code == 200, shown.text
            assert path != base or shown.content == answer.content


@pytest.mark.property
def test_charts_of_any_numbers(service: Running, charts: dict[str, str], base: str) -> None:
    """C-565: the charts that the fuzz made are searched, read whole and merged, on both bases."""
    survivor = service.create()["id"]
    for at, patient_id in charts.items():
        if at.startswith(f"{base} "):
            total = whole(service, patient_id)
            before = whole(service, survivor)
            merged = service.ask("POST", f"{base}/Patient/$merge", json=merge_body(patient_id, survivor))
            assert merged.status_code == 200, merged.text
            assert whole(service, survivor) == before + total - 1


def whole(service: Running, patient_id: str) -> int:
    """Return how many resources a chart has, the same on both bases; each type of it can be searched."""
    totals = set()
    headers = {"authorization": f"Bearer {service.token('physician')}"}
    for version, path in BASES.items():
        answer = service.http.get(f"{service.url}{path}/Patient/{patient_id}/$everything?_count=500", headers=headers)
        assert answer.status_code == 200, answer.text
        totals.add(answer.json()["total"])
        for one in CHART:
            address = f"{service.url}{path}/{name_in(FhirVersion(version), one.name)}?patient={patient_id}"
            found = service.http.get(address, headers=headers)
            assert found.status_code == 200, found.text
    assert len(totals) == 1
    return totals.pop()


def digits(value: Any) -> Iterator[tuple[Any, ...]]:
    """Yield each number of a value as its digits."""
    if isinstance(value, Number):
        yield tuple(Decimal(value).as_tuple())
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from digits(one)
