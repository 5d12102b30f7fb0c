"""A site of mapping files for the playground's tests, and the message that they are tried on."""

from pathlib import Path
from typing import Any

from engine.config.channel import Channel
from engine.mapping.authoring.case import channel_of
from engine.ops.playground.site import asked_of

MESSAGE = (
    "MSH|^~\\&|REG|RVB|X|Y|20250701101500||ADT^A28^ADT_A05|C1|P|2.5.1\n"
    "EVN||20250701101500\n"
    "PID|1||100001^^^RVB^MR||Quintero^Marisol~Quint^Mari^^^^^N||19840229|F|||5 Towpath^^Riverbend^NY^12999\n"
    "ZPI|1|Y\n"
)
PATIENT = """resource: Patient
extends: shipped/patient
elements:
  birthDate: PID-7 | date
"""
CASES = """tests:
  - case: born on a leap day
    event: A28
    message: |
      PID|1||1^^^RVB^MR||Quintero^Marisol||19840229|F
    expect: {patient: {birthDate: 1984-02-29}}
"""


def site(folder: Path) -> Path:
    """Write a site's files: a Patient of its own, and a case."""
    for name, text in (("resources/patient.yaml", PATIENT), ("tests/born.yaml", CASES)):
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
    return folder


def channel() -> Channel:
    """Return the channel that things are tried on."""
    return channel_of({"authorities": {"RVB": "https://mrn.riverbend.example"}})


def asked(folder: Path | None, edited: dict[str, str] | None = None, **more: Any) -> dict[str, Any]:
    """Return a question."""
    return {**asked_of(folder, channel(), edited or {}), **more}
