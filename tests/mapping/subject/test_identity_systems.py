"""An identity is written under the system that is searched: constants that are another one are refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from engine.config.settings import shipped
from engine.mapping.authoring.case import channel_of
from engine.mapping.compile import load
from engine.mapping.files.setting import setting_of
from engine.mapping.subject.identity_checks import changed_systems
from tests.mapping.conftest import AUTHORITIES

Author = Callable[..., Path]
PATIENT: Final = "resource: Patient\nextends: shipped/patient\n"
CX: Final = 'datatype: CX\nextends: shipped/cx\nelements:\n  system: "{}"\n'
RVB: Final = AUTHORITIES["RVB"]
MERGED: Final = "merged: {identifier: [{each: MRG-1, system: urn:x, value: CX.1, needs: [value]}]}\n"
ONE: Final = {"": RVB, "RVB": RVB, "RVB^VN": "https://visits.example", "RVB^AN": "urn:accounts"}
WITH_PID_4: Final = "mapping: adt\nextends: shipped/adt\nidentity: {from: [PID-3, PID-4]}\n"


def _identifier(line: str) -> dict[str, str]:
    return {"resources__patient": f"{PATIENT}elements:\n  identifier:\n    - {line}\n"}


def _found(folder: Path, authorities: dict[str, str]) -> list[str]:
    documents = load([folder, shipped("mappings")], "adt").documents
    setting = setting_of(channel_of({"authorities": authorities}))
    return [str(changed_system) for changed_system in changed_systems(documents, setting, "adt")]


@pytest.mark.parametrize(
    ("files", "authorities", "place", "source"),
    [
        ({"datatypes__cx": CX.format("https://mrn.example")}, AUTHORITIES, "cx.yaml:4:3", "PID-3"),
        ({"datatypes__cx": CX.format("https://mrn.example")}, {}, "cx.yaml:4:3", "PID-3"),
        ({"datatypes__cx": CX.format(RVB)}, AUTHORITIES, "cx.yaml:4:3", "PID-3"),
        (
            {"datatypes__cx": CX.format("'urn:x' | when CX.4.1 = RVB | else CX | identifier-system")},
            ONE,
            "4:3",
            "PID-3",
        ),
        (
            {"datatypes__cx": CX.format("'urn:x' | when CX.5 in (DL, MR) | else CX | identifier-system")},
            ONE,
            "",
            "PID-3",
        ),
        ({"datatypes__cx": CX.format("'urn:x' | unless CX.5 = DL | else CX | identifier-system")}, ONE, "", "PID-3"),
        (_identifier("{each: PID-3, system: urn:x, value: CX.1}"), ONE, "patient.yaml:5:21", "PID-3"),
        (_identifier("{each: PID-3, system: urn:x, value: CX.1, when: CX.5 = MR}"), ONE, "patient.yaml:5:21", "PID-3"),
        (_identifier("{system: urn:x, value: 'PID-3[CX.5=MR].1'}"), ONE, "patient.yaml:5:8", "PID-3"),
        ({"resources__patient": PATIENT + MERGED}, ONE, "patient.yaml:3:", "MRG-1"),
        ({"adt": WITH_PID_4, **_identifier("{system: urn:x, value: PID-4.1}")}, ONE, "patient.yaml:5:8", "PID-4"),
    ],
)
def test_another_system_is_told(
    author: Author, files: dict[str, str], authorities: dict[str, str], place: str, source: str
) -> None:
    """Where it stands, with the field and the systems by which the channel has it searched."""
    told = _found(author(**files), authorities)
    assert told
    under = "channel adt has searched under " + (
        ", ".join(sorted({uri for key, uri in authorities.items() if "^" not in key})) or "urn:adt-"
    )
    assert all(place in one and f"as the system of {source}" in one and under in one for one in told)


@pytest.mark.parametrize(
    ("files", "authorities"),
    [
        ({}, AUTHORITIES),
        ({"datatypes__cx": CX.format(RVB)}, ONE),
        ({"datatypes__cx": CX.format(f"'{RVB}' | when CX.4.1 = RVB | else CX | identifier-system")}, AUTHORITIES),
        ({"datatypes__cx": CX.format("'urn:x' | when CX.5 in (DL, SS) | else CX | identifier-system")}, AUTHORITIES),
        ({"datatypes__cx": CX.format("CX | identifier-system | else 'urn:x'")}, AUTHORITIES),
        (
            {"datatypes__cx": CX.format("'urn:oid:1.2.3' | when CX.4.2 = 1.2.3 | else CX | identifier-system")},
            AUTHORITIES,
        ),
        ({"datatypes__cx": CX.format("urn:adt-engine:authority:RVB")}, {}),
        (_identifier("{each: PID-18, system: urn:x, value: CX.1}"), AUTHORITIES),
        (_identifier("{each: PID-3, system: urn:x, value: CX.1, when: PID-3.5 = DL and PID-3.4}"), AUTHORITIES),
        (_identifier("{system: urn:x, value: 'PID-3[CX.5=SS].1'}"), AUTHORITIES),
        (_identifier(f"{{system: '{RVB}', value: 'PID-3[CX.4=RVB].1'}}"), AUTHORITIES),
    ],
)
def test_the_system_that_is_searched_passes(author: Author, files: dict[str, str], authorities: dict[str, str]) -> None:
    """A constant that the channel names, for whom it names it, and what is no identity."""
    assert _found(author(**files), authorities) == []
