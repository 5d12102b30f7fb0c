"""A reference by number alone has the identifier, system and value, of the resource that is made of the same number."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.hl7.message import parse
from engine.mapping.authoring.case import channel_of, sending
from engine.mapping.authoring.outcome import outcome
from engine.mapping.compile import Mapping, MappingSource, compile_mapping

HEAD = "MSH|^~\\&|HIS|RVB|||20250701093000||ADT^A08|M1|P|2.5.1\rPID|1||1^^^RVB^MR||Ash^Ann\r"
AUTHORITIES = {"RVB": "https://mrn.riverbend.example", "LAB^DN": "https://doctors.lab.example"}
AUTHORITY = st.sampled_from(
    ["", "RVB", "LAB", "CMS", "NPI", "&1.2.3&ISO", "LAB&1.2.3&ISO", "&https://a.example&URI", "X Y"]
)
TYPE = st.sampled_from(["", "NPI", "DN", "PRN", "XX", "A#B", '""'])
NUMBER = st.text("0123456789ABCZ-", max_size=6)
US_NPI = "http://hl7.org/fhir/sid/us-npi"


@pytest.fixture(scope="module")
def everything(source: MappingSource) -> Mapping:
    """The shipped mapping, with all that names an XCN or an XON."""
    types = ("Encounter", "Coverage", "Condition", "Procedure", "Observation")
    return compile_mapping(sending(source, types), channel_of({"authorities": AUTHORITIES, "timezone": "UTC"}))


def bodies(mapping: Mapping, *segments: str) -> dict[str, Any]:
    """Return what a message becomes, by type."""
    made = outcome(mapping, parse((HEAD + "\r".join(segments)).encode()))
    found = [one.get("patient") or one.get("resource") for one in made["interactions"]]
    return {one["resourceType"]: one for one in found if one}


def number_of(identifier: dict[str, Any] | None) -> tuple[str, str] | None:
    """Return system and value."""
    return (identifier["system"], identifier["value"]) if identifier else None


@given(number=NUMBER, authority=AUTHORITY, type_=TYPE)
def test_a_person_who_is_named_has_the_number_of_the_practitioner(
    everything: Mapping, number: str, authority: str, type_: str
) -> None:
    """PD1-4, DG1-16, PR1-12, OBX-16 and ROL-4 refer by the identifier that PV1-7 is searched and made by."""
    person = f"{number}^Hill^Ann^^^^^^{authority}^^^^{type_}"
    made = bodies(
        everything,
        f"PD1||||{person}",
        f"ROL|1|AD|PP|{person.replace('Hill', 'Oak')}",
        f"PV1|1|I|||||{person}||||||||||||V1^^^RVB",
        f"DG1|1||A1^Ache^L{'|' * 13}{person}",
        f"PR1|1||P1^Stitch^L{'|' * 9}{person}",
        f"OBX|1|ST|X^Y^L||z||||||F|||||{person}",
    )
    shown = [
        *made["Patient"]["generalPractitioner"],
        made["Condition"]["asserter"],
        made["Procedure"]["performer"][0]["actor"],
        made["Observation"]["performer"][0],
    ]
    identifiers = made.get("Practitioner", {}).get("identifier") or [None]
    assert {number_of(one.get("identifier")) for one in shown} == {number_of(identifiers[0])}
    assert len(shown) == 5


@given(number=NUMBER, former=NUMBER, authority=AUTHORITY, type_=TYPE)
def test_an_organization_that_is_named_has_the_number_of_the_one_that_is_made(
    everything: Mapping, number: str, former: str, authority: str, type_: str
) -> None:
    """PD1-3 and NK1-13 refer by the identifier that IN1-11 is searched and made by."""
    body = f"Mill^^{former}^^^{authority}^{type_}^^^{number}"
    made = bodies(everything, f"PD1|||{body}", f"NK1|1||EMR{'|' * 10}{body}", f"IN1|1|P|7^^^B|Payor|||||||{body}")
    shown = [*made["Patient"]["generalPractitioner"], made["Patient"]["contact"][0]["organization"]]
    holder = made["Coverage"]["policyHolder"]
    expected = (
        tuple(holder["reference"].removeprefix("#Organization ").rsplit("|", 1)) if "reference" in holder else None
    )
    assert [number_of(one.get("identifier")) for one in shown] == [expected, expected]


@pytest.mark.parametrize(
    ("person", "system"),
    [
        pytest.param("7^Hill^^^^^^^CMS^^^^NPI", US_NPI, id="type"),
        pytest.param("7^Hill^^^^^^^RVB", "https://mrn.riverbend.example#PRN", id="authority"),
        pytest.param("7^Hill^^^^^^^LAB^^^^DN", "https://doctors.lab.example", id="authority and type"),
        pytest.param("7^Hill^^^^^^^&1.2.3&ISO^^^^DN", "urn:oid:1.2.3#DN", id="universal id"),
        pytest.param("7^Hill", "https://mrn.riverbend.example#PRN", id="neither: the sender's"),
        pytest.param("999^Hill^^^^^^^RVB", None, id="a placeholder is no number"),
    ],
)
def test_the_system_of_a_practitioner_who_is_named(everything: Mapping, person: str, system: str | None) -> None:
    """By the type, by the authority, or by the sending facility."""
    [shown] = bodies(everything, f"PD1||||{person}")["Patient"]["generalPractitioner"]
    assert shown.get("identifier", {}).get("system") == system
    assert shown["display"] == "Hill"
