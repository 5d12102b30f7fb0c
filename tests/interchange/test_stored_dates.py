"""Dates that are stored are found: leap seconds, long fractions, both ends of the calendar, periods the wrong way."""

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.fhir.schema import FhirVersion, defects
from engine.interchange.store.search.date import span
from tests.interchange.kit import Running
from tests.interchange.least import least, version_of

ENDS = (
    "0001",
    "0001-01",
    "0001-01-01",
    "0001-01-01T00:00:00+14:00",
    "9999",
    "9999-12",
    "9999-12-31",
    "9999-12-31T23:59:60-12:00",
    "9999-12-31T23:59:59.999999999999-14:00",
    "2016-12-31T23:59:60Z",
    "2016-12-31T23:59:60.5Z",
    "2025-07-01T10:00:60+02:00",
    "2025-07-01T10:00:00.1234567890123Z",
    "2025-07-01T10:00:00.0000000000000000000000000001Z",
)


@pytest.mark.parametrize("moment", ENDS)
def test_a_date_at_an_end(service: Running, base: str, moment: str) -> None:
    """C-195, N-250: it is found by itself, by its day or year, from before and from after; $everything bounds it."""
    patient_id = service.create()["id"]
    body = least("Observation", patient_id, version_of(base), effectiveDateTime=moment)
    made = service.ask("POST", f"{base}/Observation", json=body)
    assert made.status_code == 201, made.text

    def total(query: str) -> int:
        answer = service.ask("GET", f"{base}/Observation?patient={patient_id}&date={quote(query)}")
        assert answer.status_code == 200, answer.text
        return int(answer.json()["total"])

    assert [total(f"{prefix}{moment}") for prefix in ("", "eq", "ge", "le", "gt", "lt")] == [1, 1, 1, 1, 0, 0]
    assert total("ge0001") + total("lt0001") == 1
    assert total("le9999") + total("gt9999") == 1
    everything = f"{base}/Patient/{patient_id}/$everything?_type=Observation&"
    assert service.ask("GET", f"{everything}start=2100-01-01").json()["total"] == int(moment.startswith("9999"))


@pytest.mark.parametrize("moment", ["2016-12-31T23:59:60Z", "2016-12-31T23:59:60.5Z", "2017-01-01T08:59:60+09:00"])
def test_a_leap_second(service: Running, base: str, moment: str) -> None:
    """It is found under its own day and year, and not under the next."""
    patient_id = service.create()["id"]
    body = least("Observation", patient_id, version_of(base), effectiveDateTime=moment)
    assert service.ask("POST", f"{base}/Observation", json=body).status_code == 201
    for date, total in (("2016-12-31", 1), ("2016", 1), ("2017", 0), ("2017-01-01", 0), ("ge2017-01-01", 0)):
        found = service.ask("GET", f"{base}/Observation?patient={patient_id}&date={date}").json()
        assert found["total"] == total, date


@pytest.mark.parametrize("moment", ENDS)
def test_a_death_at_an_end(service: Running, base: str, moment: str) -> None:
    """N-250: so is the moment of a death, and it has its place in an order."""
    made = service.create(base, deceasedDateTime=moment)["id"]
    later = service.create(base, deceasedDateTime="2020-01-01")["id"]
    for prefix, total in (("", 1), ("ge", 1), ("le", 1), ("gt", 0), ("lt", 0)):
        answer = service.ask("GET", f"{base}/Patient?_id={made}&death-date={prefix}{quote(moment)}")
        assert answer.json()["total"] == total
    ordered = service.ask("GET", f"{base}/Patient?_id={made},{later}&_sort=death-date").json()["entry"]
    assert [one["resource"]["id"] for one in ordered] == ([made, later] if moment < "2020" else [later, made])


def test_a_birth_at_an_end(service: Running, base: str) -> None:
    """C-195: a birth date, too."""
    for birth in ("0001-01-01", "9999-12-31", "0001", "9999"):
        made = service.create(base, birthDate=birth)
        found = service.ask("GET", f"{base}/Patient?birthdate={birth}&_id={made['id']}").json()
        assert found["total"] == 1


def test_a_period_the_wrong_way(service: Running, base: str) -> None:
    """C-195: a period that ends before it begins is found by both, and by what lies between."""
    patient_id = service.create()["id"]
    period = {"start": "2025-07-03T10:00:00Z", "end": "2025-07-01T10:00:00Z"}
    body = least("Observation", patient_id, version_of(base), effectivePeriod=period)
    assert service.ask("POST", f"{base}/Observation", json=body).status_code == 201
    for query, total in (
        ("ge2025-07-02", 1),
        ("le2025-07-02", 1),
        ("2025-07", 1),
        ("gt2025-07-03", 0),
        ("lt2025-07-01", 0),
    ):
        found = service.ask("GET", f"{base}/Observation?patient={patient_id}&date={query}").json()
        assert found["total"] == total, query


@given(
    st.from_regex(
        r"\A[0-9]{4}(-[01][0-9](-[0-3][0-9](T[0-2][0-9]:[0-5][0-9]:[0-6][0-9](\.[0-9]{1,30})?(Z|[+-]1[0-4]:00))?)?)?\Z"
    )
)
def test_every_date_that_is_valid_has_a_place(moment: str) -> None:
    """C-195, N-250: what the validator lets pass can be searched."""
    body = {"resourceType": "Observation", "status": "final", "code": {"text": "x"}, "effectiveDateTime": moment}
    if moment.isascii() and not defects(body, FhirVersion.R4):
        found = span(moment)
        assert found is not None
        assert found[0] <= found[1]
