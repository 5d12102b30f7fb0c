"""Test cases that differ, and resources that fhir.resources finds something wrong with."""

from collections.abc import Mapping, Sequence

from engine.config.channel import Channel
from engine.fhir.schema import FhirVersion
from engine.fhir.secondary_validator import second_opinion
from engine.mapping.authoring.case import NO_CHANNELS, Case, CaseResult, run_cases
from engine.mapping.compile import MappingSource
from engine.ops.views.answer import AnyJson


def failed_cases(
    cases: Sequence[Case], mapping: MappingSource, channels: Mapping[str, Channel] = NO_CHANNELS
) -> list[CaseResult]:
    """Return the cases that come out otherwise than expected, or as a resource that is not valid.

    `channels`: those that cases may name.
    """
    made = run_cases(cases, mapping, channels)
    results = (one._replace(differences=(*one.differences, *invalid(one.found))) for one in made)
    return [one for one in results if one.differences]


def invalid(made: Mapping[str, AnyJson]) -> list[str]:
    """Return what fhir.resources finds wrong with the resources that a plan would create."""
    found = made.get("interactions") or ()
    whole = [one for one in found if "attest" in one or one.get("if_absent", "create").startswith("create")]
    bodies = [body for one in whole if (body := one.get("patient") or one.get("resource"))]
    defects = (one for body in bodies for one in second_opinion(body, FhirVersion.R4))
    return [f"{one.path}: {one.text} (fhir.resources)" for one in defects]
