"""Values of FHIR as those of CDA: times, codes, quantities, ids."""

from typing import Any
from zoneinfo import ZoneInfo

import pytest
from lxml import etree

from engine.interchange.clinical.ccda.codes import CVX, LOINC, RXNORM, add_code, derived_oid
from engine.interchange.clinical.ccda.quantities import add_observed, number
from engine.interchange.clinical.ccda.record import add_identifiers
from engine.interchange.clinical.ccda.times import readable, value_of
from engine.interchange.kernel.exact import read_json

Json = Any
PACIFIC = ZoneInfo("America/Los_Angeles")
TYPE = "{http://www.w3.org/2001/XMLSchema-instance}type"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", ""),
        ("2025", "2025"),
        ("2025-07", "202507"),
        ("2025-07-01", "20250701"),
        ("2025-07-01T10:00:00Z", "20250701030000-0700"),
        ("2025-01-01T10:00:00+09:30", "20241231163000-0800"),
        ("2025-07-01T10:00:00.120Z", "20250701030000.12-0700"),
        ("2025-07-01T10:00:00.000Z", "20250701030000-0700"),
        ("2016-12-31T23:59:60Z", "20161231235960+0000"),  # a leap second
        ("0001-01-01T00:00:00+14:00", "00010101000000+1400"),  # before the calendar began, in that zone
        ("1850-01-01T12:00:00Z", "18500101120000+0000"),  # local time had an offset with seconds
    ],
)
def test_a_time_keeps_its_precision(text: str, value: str) -> None:
    """A date stays a date; a moment is in the zone, with its offset."""
    assert value_of(text, PACIFIC) == value


def test_a_time_is_read_by_people() -> None:
    """With the name that the zone has at that time of the year."""
    assert readable("2025-01-01T10:00:00Z", PACIFIC) == "2025-01-01 02:00 PST"
    assert readable("2025-01", PACIFIC) == "2025-01"
    assert readable("2016-12-31T23:59:60Z", PACIFIC) == "2016-12-31T23:59:60Z"


RX = {"system": "http://www.nlm.nih.gov/research/umls/rxnorm", "code": "197361", "display": "Amlodipine"}
NDC = {"system": "http://hl7.org/fhir/sid/ndc", "code": "0069-1530-68"}
OWN = {"system": "http://lab.example/codes", "code": "A 1"}


def _coded(concept: Json, **options: Any) -> etree._Element:
    return add_code(etree.Element("x"), "code", concept, **options)


def test_the_preferred_system_is_in_front() -> None:
    """The others are translations, with OID and name."""
    made = _coded({"coding": [NDC, RX]}, prefer=(RXNORM,))
    assert (made.get("code"), made.get("codeSystem"), made.get("codeSystemName")) == ("197361", RXNORM, "RxNorm")
    assert made[0].get("code") == "0069-1530-68"
    assert _coded({"coding": [NDC, RX]}, prefer=(CVX,)).get("code") == "0069-1530-68"


def test_a_code_of_an_unknown_system_is_a_translation_of_none() -> None:
    """OTH, the text, and the code under an OID made of the address, which stands beside it."""
    made = _coded({"coding": [OWN], "text": "Grey"}, anchor="x-1")
    assert made.get("nullFlavor") == "OTH"
    assert made.get("code") is None
    assert made[0].text == "Grey"
    assert made[0][0].get("value") == "#x-1"
    assert dict(made[1].attrib) == {
        "code": "A1",
        "codeSystem": derived_oid("http://lab.example/codes"),
        "codeSystemName": "http://lab.example/codes",
    }


def test_a_concept_without_codes_keeps_its_text() -> None:
    """OTH where there is a text, UNK where there is nothing."""
    assert _coded({"text": "Grey"}).get("nullFlavor") == "OTH"
    assert _coded(None).get("nullFlavor") == "UNK"
    assert len(_coded(None)) == 0


def test_a_demanded_system_is_never_replaced() -> None:
    """Where a template takes one system only, others are translations."""
    made = _coded({"coding": [RX]}, demand=LOINC)
    assert made.get("nullFlavor") == "OTH"
    assert [one.get("code") for one in made.findall("{*}translation")] == ["197361"]


@pytest.mark.parametrize(
    ("holder", "data_type", "attributes"),
    [
        ('{"valueQuantity":{"value":6.30,"unit":"mg/dL"}}', "PQ", {"value": "6.30", "unit": "mg/dL"}),
        ('{"valueQuantity":{"value":1e3}}', "PQ", {"value": "1000", "unit": "1"}),
        ('{"valueQuantity":{"value":5,"unit":"widgets"}}', "PQ", {"nullFlavor": "OTH"}),
        ('{"valueQuantity":{"unit":"mg"}}', "PQ", {"nullFlavor": "UNK"}),
        ('{"valueInteger":7}', "INT", {"value": "7"}),
        ('{"valueBoolean":false}', "BL", {"value": "false"}),
        ('{"valueDateTime":"2025-07-01"}', "TS", {"value": "20250701"}),
        ('{"valueString":"x"}', "ST", {}),
        ('{"valueTime":"10:00:00"}', "ST", {}),
        ('{"valueRange":{}}', "CD", {"nullFlavor": "UNK"}),
        ('{"valueSampledData":{"period":1}}', "CD", {"nullFlavor": "UNK"}),
        ('{"dataAbsentReason":{"coding":[{"code":"masked"}]}}', "CD", {"nullFlavor": "MSK"}),
        ("{}", "CD", {"nullFlavor": "UNK"}),
    ],
)
def test_a_value_has_its_data_type(holder: str, data_type: str, attributes: dict[str, str]) -> None:
    """Digits as they came, units of UCUM, a null flavor where there is no value."""
    parent = etree.Element("x")
    add_observed(parent, read_json(holder.encode()), PACIFIC, "x-1")
    (made,) = parent
    found = {str(key): str(value) for key, value in made.attrib.items()}
    assert found.pop(TYPE) == data_type
    assert found == attributes


def test_an_unknown_unit_keeps_its_text() -> None:
    """Beside the null flavor stands what was written."""
    parent = etree.Element("x")
    add_observed(parent, {"valueQuantity": {"value": 5, "unit": "widgets"}}, PACIFIC, "x-1")
    (other,) = parent[0]
    assert other.get("value") == "5"
    assert "".join(str(one) for one in other.itertext()) == "widgets"


def test_numbers_have_no_exponent() -> None:
    """CDA's numbers are written out."""
    assert [number(one) for one in (5, 0.1, 1e-7, 1e22)] == ["5", "0.1", "0.0000001", "10000000000000000000000"]


def test_identifiers_become_ids() -> None:
    """An OID or a UUID by itself, a registered system by its OID, another by one made of its address."""
    parent = etree.Element("x")
    uuid = "0d7b6c9e-52a4-4f2e-9b57-61d0f0b8a1c2"
    count = add_identifiers(
        parent,
        [
            {"system": "urn:ietf:rfc:3986", "value": f"urn:uuid:{uuid}"},
            {"system": "urn:ietf:rfc:3986", "value": "urn:oid:1.2.3"},
            {"system": "http://hl7.org/fhir/sid/us-npi", "value": "1"},
            {"system": "https://x.example", "value": "2"},
            {"system": "urn:ietf:rfc:3986", "value": "urn:uuid:none"},
            {"value": "of nobody"},
            {"system": "https://x.example"},
        ],
    )
    found = [(one.get("root"), one.get("extension")) for one in parent]
    assert found[:3] == [(uuid, None), ("1.2.3", None), ("2.16.840.1.113883.4.6", "1")]
    assert found[3] == (derived_oid("https://x.example"), "2")
    assert count == len(found) == 5
