"""What is sent, held against the FHIR schema of the destination (`validate: warn | refuse`)."""

import pytest

from engine.deliver.verdict import VerdictKind
from engine.deliver.wire.exchange import faults
from engine.fhir.plan import Upsert


@pytest.mark.parametrize("fhir", ["R4", "STU3"])
def test_faults_name_places_and_no_values(fhir):
    """A valid resource has none; an invalid one names where, at most five times."""
    good = {"resourceType": "Patient", "gender": "female", "birthDate": "1984-02-29"}
    assert faults(good, fhir) == ()
    assert faults(good | {"gender": "SENTINEL"}, fhir) == ("invalid-output", "invalid-output Patient.gender")
    many = good | {"name": [{"family": 7} for _ in range(20)]}
    assert len(faults(many, fhir)) == 6
    assert faults({"resourceType": "Unheard"}, fhir) == ("invalid-output", "invalid-output Unheard")


@pytest.mark.parametrize(
    ("policy", "kind", "effects"),
    [
        ("off", VerdictKind.DELIVERED, ["create p1"]),
        ("warn", VerdictKind.DELIVERED, ["create p1"]),
        ("refuse", VerdictKind.HELD, []),
    ],
)
async def test_what_is_not_valid_is_noted_or_held(site, server, patient, policy, kind, effects):
    """Refused, nothing is sent and no intent is written; warned, the notes name the place."""
    channel = site.open().channel.model_copy(update={"check_output": policy})
    verdict = await site.send(Upsert(patient("1", gender="of no code")), channel=channel)
    assert (verdict.kind, server.effects) == (kind, effects)
    assert ("invalid-output Patient.gender" in verdict.notes) == (policy != "off")
    assert len(site.intents) == len(effects)
    if policy == "refuse":
        assert verdict.reason == "invalid-output"


async def test_what_is_valid_passes_the_check(site, server, patient):
    """A refusing channel delivers what FHIR allows."""
    channel = site.open().channel.model_copy(update={"check_output": "refuse"})
    verdict = await site.send(Upsert(patient("1")), channel=channel)
    assert (verdict.reason, server.effects) == ("created", ["create p1"])
