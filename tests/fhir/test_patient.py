"""Facts of a Patient: whom it stands for, whom it replaced, and whether two sides are one person."""

import pytest

from engine.fhir.patient import another_person, carries, current_numbers, links, overlays, person, replaced_by
from engine.fhir.plan import ElementChange, Identity, PatientRecord


def who(family="Quintero", given="Marisol", birth_date="1984-02-29"):
    """A person with one name."""
    return person({"name": [{"family": family, "given": [given]}], "gender": "female", "birthDate": birth_date})


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        pytest.param(who("Osei", "Kwame", "1950-01-01"), True, id="nothing agrees"),
        pytest.param(who("Osei", "Kwame"), False, id="birth date agrees"),
        pytest.param(who("Osei", "MARISOL", "1950-01-01"), False, id="given name agrees"),
        pytest.param(who("quintero", "Kwame", "1950-01-01"), False, id="family name agrees"),
        pytest.param(who("Osei", "BABYBOY", "1950-01-01"), False, id="placeholder name"),
        pytest.param(who("Doe", "John", "1950-01-01"), False, id="placeholder family"),
        pytest.param(who("Osei", "Kwame", "1900-01-01"), False, id="placeholder date"),
        pytest.param(who("Osei", "Kwame", "1984-02"), False, id="coarser date agrees"),
        pytest.param(who("Osei", "Kwame", ""), False, id="no date"),
        pytest.param(person({"birthDate": "1950-01-01"}), False, id="no name"),
    ],
)
def test_another_person(other, expected):
    """Another person is one whose birth date differs and of whose names none agrees, without stand-ins."""
    assert another_person(who(), other) is expected
    assert another_person(other, who()) is expected


def test_overlay_asks_the_message():
    """A message of another person under the number of a record is seen; a newborn's is not judged."""
    body = {"name": [{"family": "Quintero", "given": ["Marisol"]}], "birthDate": "1984-02-29"}
    changes = (
        ElementChange("name", "PID-5", ({"family": "Osei", "given": ["Kwame"]},), many=True),
        ElementChange("birthDate", "birthDate", ("1950-01-01",), many=False),
    )
    record = PatientRecord((Identity("s", "1"),), (), changes, placeholder=False)
    assert overlays(record, body)
    assert not overlays(PatientRecord(record.identities, (), changes, placeholder=True), body)


def test_numbers_leave_out_what_registers_nobody():
    """A retired number, a driving licence and the server's own id are no registration."""
    body = {
        "id": "a1",
        "identifier": [
            {"system": "s", "value": "1"},
            {"system": "s", "value": "2", "use": "old"},
            {"system": "ssn", "value": "3", "type": {"coding": [{"code": "SS"}]}},
            {"system": "service", "value": "a1"},
        ],
    }
    assert current_numbers(body) == (Identity("s", "1"),)
    assert carries(body, Identity("s", "2")) == "old"
    assert carries(body, Identity("s", "9")) == ""


def test_links_are_read_from_any_reference():
    """References of any form give the logical id."""
    body = {
        "link": [
            {"type": "replaced-by", "other": {"reference": "http://x/fhir/R4/Patient/b/_history/2"}},
            {"type": "replaces", "other": {"reference": "Patient/c"}},
            {"type": "replaces", "other": {"display": "no reference"}},
        ]
    }
    assert (replaced_by(body), links(body, "replaces")) == ("b", ("c",))


@pytest.mark.parametrize(
    "body", [{}, {"name": None, "identifier": "x", "link": [1]}, {"name": [1], "identifier": [None]}]
)
def test_broken_resources_are_taken(body):
    """What a server should not send does not make reading fail."""
    assert not person(body).complete
    assert current_numbers(body) == ()
    assert replaced_by(body) == ""
