from engine.ops.demo.chart import facts_of


def test_facts_of_a_patient() -> None:
    """A record is told in words; what it does not say is empty."""
    patient = {
        "resourceType": "Patient",
        "active": False,
        "name": [
            {"use": "nickname", "given": ["Fina"]},
            {"use": "official", "family": "Quillon", "given": ["Serafina"]},
        ],
        "telecom": [
            {"system": "phone", "use": "home", "value": "+1 (555) 555-0107"},
            {"system": "phone", "use": "work", "value": "555-0103"},
            {"system": "email", "value": "q@riverbend.example"},
        ],
        "maritalStatus": {"coding": [{"code": "W"}]},
        "communication": [{"language": {"coding": [{"code": "es"}]}}],
        "contact": [{"name": {"family": "Ardmore"}}],
        "extension": [
            {
                "url": "http://hl7.org/fhir/us/core/StructureDefinition/us-core-race",
                "extension": [
                    {"url": "ombCategory", "valueCoding": {"code": "2106-3"}},
                    {"url": "text", "valueString": "White"},
                ],
            }
        ],
    }
    facts = facts_of(patient)
    assert {key: facts[key] for key in ("family", "given", "names", "active", "phone", "workPhone")} == {
        "family": "Quillon",
        "given": "Serafina",
        "names": "2",
        "active": "false",
        "phone": "5550107",
        "workPhone": "5550103",
    }
    assert (facts["maritalStatus"], facts["language"], facts["contacts"]) == ("W", "es", "Ardmore")
    assert (facts["race"], facts["ethnicity"], facts["line"], facts["gender"]) == ("2106-3", "", "", "")
