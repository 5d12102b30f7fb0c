"""The edge to STU3: what differs in a Patient, there and back."""

from copy import deepcopy

from fhir.resources.STU3.patient import Patient

from engine.fhir.version import from_stu3, to_stu3

R4 = {
    "resourceType": "Patient",
    "identifier": [
        {
            "type": {"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v2-0203", "code": "MR"}]},
            "system": "https://mrn.riverbend.example",
            "value": "1",
        }
    ],
    "maritalStatus": {"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v3-MaritalStatus", "code": "M"}]},
    "address": [{"use": "billing", "city": "Keswick"}, {"use": "home", "city": "Keswick"}],
    "managingOrganization": {"reference": "Organization/1", "type": "Organization"},
}


def test_r4_becomes_stu3():
    """Table URLs, the billing address and the type of a reference are STU3's; the model of STU3 takes it."""
    given = deepcopy(R4)
    body = to_stu3(given)
    assert given == R4
    assert body["identifier"][0]["type"]["coding"][0]["system"] == "http://hl7.org/fhir/v2/0203"
    assert body["identifier"][0]["system"] == "https://mrn.riverbend.example"
    assert body["maritalStatus"]["coding"][0]["system"] == "http://hl7.org/fhir/v3/MaritalStatus"
    assert [address.get("use") for address in body["address"]] == [None, "home"]
    assert "type" not in body["managingOrganization"]
    Patient.model_validate(body)


def test_systems_come_back():
    """What STU3 names otherwise is R4's again after reading."""
    back = from_stu3(to_stu3(R4))
    assert back["identifier"] == R4["identifier"]
    assert back["maritalStatus"] == R4["maritalStatus"]
