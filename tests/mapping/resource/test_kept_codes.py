"""A code that a FHIR status cannot say is kept in it as an alternate code."""

from typing import Any

import pytest
import yaml

from engine.config.settings import shipped
from engine.hl7.message import parse
from engine.mapping.authoring.case import channel_of, sending
from engine.mapping.authoring.outcome import outcome
from engine.mapping.compile import Mapping, MappingSource, compile_mapping, load

HEAD = "MSH|^~\\&|HIS|RVB|||20250701093000||{}|M1|P|2.5.1\rPID|1||1^^^RVB^MR||Ash^Ann\r"


@pytest.fixture(scope="module")
def observing(source: MappingSource) -> Mapping:
    """The shipped mapping, which sends the OBX of an ADT message."""
    return compile_mapping(sending(source, ("Encounter", "Observation")), channel_of({}))


@pytest.fixture(scope="module")
def reporting() -> Mapping:
    """The shipped mapping of results."""
    return compile_mapping(load([shipped("mappings")], "oru"), channel_of({}))


def said(mapping: Mapping, event: str, segments: str, type_: str) -> tuple[str, str]:
    """Return status and alternate code of the resource of a type; empty where no code is kept."""
    made = outcome(mapping, parse((HEAD.format(event) + segments).encode()))
    bodies = [one["resource"] for one in made["interactions"] if "resource" in one]
    [body] = [one for one in bodies if one["resourceType"] == type_]
    kept: list[dict[str, Any]] = body.get("_status", {}).get("extension", [])
    codes = [one["valueCodeableConcept"]["coding"][0]["code"] for one in kept]
    return body["status"], codes[0] if codes else ""


def codes_of(table: str) -> list[str]:
    """Return the codes of a shipped table."""
    return list(yaml.safe_load((shipped("mappings") / f"tables/{table}.yaml").read_text("utf-8"))["codes"])


def assert_each_code_is_told(told: dict[str, tuple[str, str]]) -> None:
    """Status and alternate code tell each code from every other, and the status alone where it can."""
    assert len(set(told.values())) == len(told)
    assert all(kept in ("", code) for code, (_, kept) in told.items())
    assert told["F"] == ("final", "")
    assert told["ZZ"] == ("unknown", "ZZ")


def test_an_observation_keeps_the_code_of_its_status(observing: Mapping) -> None:
    """OBX-11: X as the guide has it, what shares a status with another code, and what no table has."""
    told = {
        code: said(observing, "ADT^A08", f"OBX|1|ST|X^Y^L||z||||||{code}", "Observation")
        for code in (*codes_of("observation-status"), "ZZ")
    }
    assert_each_code_is_told(told)
    assert told["X"] == ("cancelled", "X")
    assert told["N"] == ("final", "N")


def test_a_report_and_its_results_keep_the_codes_of_their_status(reporting: Mapping) -> None:
    """OBR-25; an OBX under an OBR keeps its code as any other."""
    told = {
        code: said(reporting, "ORU^R01", f"OBR|1||9|X^Y^L{'|' * 21}{code}", "DiagnosticReport")
        for code in (*codes_of("result-status"), "ZZ")
    }
    assert_each_code_is_told(told)
    assert told["M"] == ("preliminary", "M")
    segments = "OBR|1||9|X^Y^L\rOBX|1|ST|X^Y^L||z||||||S"
    assert said(reporting, "ORU^R01", segments, "Observation") == ("preliminary", "S")
