"""Which holds keep their lane whatever a channel says, and what is kept of a plan."""

import ast
from datetime import UTC, datetime
from pathlib import Path

import orjson

from engine.config.settings import shipped
from engine.deliver.verdict import Verdict, VerdictKind
from engine.hl7.message import parse
from engine.journal.entry import Claimed
from engine.mapping.authoring.case import channel_of
from engine.mapping.compile import compile_mapping, read
from engine.pipeline.outbound.settling import ALWAYS_KEEP_LANE, settlement

DELIVER = Path(__file__).parents[3] / "engine" / "deliver"
# Holds about what a message says, not about whom: what follows for the same patient may go on.
OF_CONTENT = {"missing-required", "unknown-patient", "visit-reused", "version-conflict"}


def hold_reasons() -> set[str]:
    """Return every reason that delivery holds an entry for, as it stands in the code."""
    found = set()
    for file in DELIVER.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "HeldDeliveryError" and node.args:
                found.update(one.value for one in ast.walk(node.args[0]) if isinstance(one, ast.Constant))
    return {one for one in found if isinstance(one, str) and one.islower() and not one.startswith("http-")}


def test_each_hold_is_about_whom_or_about_what() -> None:
    """A new reason is put among those that keep their lane, or among those of content."""
    assert hold_reasons() - ALWAYS_KEEP_LANE - OF_CONTENT == set()


def test_doubts_about_the_person_keep_the_lane() -> None:
    """Going on would act on a patient nobody is sure of; these reasons come from a variable, or are said elsewhere."""
    assert {"overlay-suspected", "merged-identifier-reused", "identity-conflict"} <= ALWAYS_KEEP_LANE


def test_a_plan_is_kept_by_its_names() -> None:
    """What is not delivered shows its plan: each part by its names, identities as pairs."""
    mapping = compile_mapping(read([shipped("mappings")], "adt"), channel_of({"authorities": {"RVB": "urn:mrn"}}))
    raw = (
        b"MSH|^~\\&|REG|RIVERBEND|||20260309080000||ADT^A01|S1|P|2.5.1\rEVN||20260309080000\r"
        b"PID|1||S-1^^^RVB^MR||Silva^Carla||19600102|F\rPV1|1|I|3W^312^A||||||||||||||||V-1^^^RVB\r"
    )
    plan = mapping.plan(parse(raw))
    now = datetime(2026, 3, 9, 8, tzinfo=UTC)
    claimed = Claimed(
        1, "fhir", raw, "adt", plan.source, "S1", "A01", now, 0, 0, None, (1,), replay=False, forced=False
    )
    verdict = Verdict(VerdictKind.HELD, "overlay-suspected")
    kept = orjson.loads(settlement(claimed, verdict, plan, "", None, now, keep_lane=True).plan)
    assert kept.keys() == set(plan._fields)
    assert [one.keys() for one in kept["interactions"]] == [set(one._fields) for one in plan.interactions]
    patient = kept["interactions"][0]["patient"]
    assert patient["identities"] == [["urn:mrn", "S-1"]]
    assert {"element": "gender", "items": ["female"]}.items() <= next(
        change for change in patient["changes"] if change["element"] == "gender"
    ).items()
