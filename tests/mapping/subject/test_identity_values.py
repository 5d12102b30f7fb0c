"""An identity is written as it is searched: rules that make another number of it are refused."""

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.config.settings import shipped
from engine.errors import ConfigurationError
from engine.mapping.compile import load

Author = Callable[..., Path]
PATIENT = "resource: Patient\nextends: shipped/patient\n"
CX = "datatype: CX\nextends: shipped/cx\nelements:\n  value: {}\n"
SSN = "mapping: adt\nextends: shipped/adt\nidentity: {from: [PID-3, {field: PID-19, type: SS}], not_identity: [DL]}\n"
MERGED = "merged: {identifier: [{each: MRG-1, as: CX, value: CX.1 | upper}]}\n"
PID_19 = "{system: urn:x, value: \"PID-19 | replace('-' '')\", needs: [value]}"


def _identifier(line: str) -> dict[str, str]:
    return {"resources__patient": f"{PATIENT}elements:\n  identifier:\n    - {line}\n"}


@pytest.mark.parametrize(
    ("files", "place", "source"),
    [
        ({"datatypes__cx": CX.format("CX.1 | strip-start(0)")}, "cx.yaml:4:3", "PID-3"),
        ({"datatypes__cx": CX.format("CX.4.2 | else CX.1")}, "cx.yaml:4:3", "PID-3"),
        ({"datatypes__cx": CX.format("CX.1 | pad(8 0) | identifier-value")}, "cx.yaml:4:3", "PID-3"),
        ({"datatypes__cx": CX.format("{first: [CX.1 | when CX.5 = MR, CX.1 | upper]}")}, "cx.yaml:4:3", "PID-3"),
        (_identifier("{each: PID-3, as: CX, value: CX.1 | upper}"), "patient.yaml:5:29", "PID-3"),
        (
            {"resources__patient": PATIENT + MERGED},
            "patient.yaml:3:",
            "MRG-1",
        ),
        ({"adt": SSN, **_identifier(PID_19)}, "patient.yaml:5:", "PID-19"),
    ],
)
def test_a_changed_number_is_refused(author: Author, files: dict[str, str], place: str, source: str) -> None:
    """Where it stands, with the field that patients are searched by."""
    with pytest.raises(ConfigurationError) as refused:
        load([author(**files), shipped("mappings")], "adt")
    told = [str(problem) for problem in refused.value.problems if "by which patients are searched" in problem.found]
    assert told
    assert all(place in one and f"as the value of {source}" in one for one in told)


@pytest.mark.parametrize(
    "files",
    [
        {"datatypes__cx": CX.format("CX.1")},
        {"datatypes__cx": CX.format("CX.1 | identifier-value | when CX.5 != DL")},
        _identifier("{each: PID-18, as: CX, value: CX.1 | strip-start(0)}"),
        _identifier(PID_19),
    ],
)
def test_what_is_searched_as_written_passes(author: Author, files: dict[str, str]) -> None:
    """The number itself, and what is no identity."""
    load([author(**files), shipped("mappings")], "adt")
