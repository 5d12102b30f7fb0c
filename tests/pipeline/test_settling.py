"""Which holds keep their lane whatever a channel says."""

import ast
from pathlib import Path

from engine.pipeline.settling import ALWAYS_KEEP_LANE

DELIVER = Path(__file__).parents[2] / "engine" / "deliver"
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
