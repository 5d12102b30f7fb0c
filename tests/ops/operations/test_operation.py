"""Each operation is defined once and whole, and shows nothing that nobody said may be shown."""

from typing import Any

import pytest
from pydantic import BaseModel

from engine.ops.access.actor import Actor, Permission
from engine.ops.operations.messages import ListMessages
from engine.ops.operations.operation import Confirm, Operation
from engine.ops.operations.table import ALL
from engine.ops.views.answer import Answer
from engine.ops.views.entry import Row, RowFacts
from engine.ops.views.view import FactsPage
from engine.pipeline.engine import Engine

# Written by hand, from the requirement: what needs the password typed just now, however it is asked for.
CONFIRMED = {
    "messages.discard", "lanes.discard", "messages.export", "messages.resolve", "audit.export", "mappings.publish",
}  # fmt: skip
ROW = Row(
    entry=7, received_at="2026-03-01T12:00:00.000+00:00", channel="adt", source="REG|RVB", control_id="c1", event="A08",
    state="held", reason="", ack="AA", ack_outcome="sent", flags=(), receipts=1, visit="V0815",
)  # fmt: skip


@pytest.mark.parametrize("operation", ALL, ids=lambda operation: operation.name)
def test_every_operation_is_whole(operation: type[Operation[Any]]) -> None:
    """A name, a line that says what it does, a permission, models of request and answer."""
    assert operation.summary().endswith("."), "its first line says what it does"
    assert isinstance(operation.permission, Permission)
    assert operation.run is not Operation.run
    assert issubclass(operation, BaseModel)
    assert operation.model_config["extra"] == "forbid"
    assert operation.answer().json_schema(mode="serialization")
    accounts = operation.permission is Permission.USERS and not operation.name.endswith(".list")
    assert (operation.confirm is Confirm.STEP_UP) is (operation.name in CONFIRMED or accounts)


def test_a_field_that_nobody_marked_is_not_shown() -> None:
    """An operation that needs no permission to see patients cannot be defined over an answer with such a field."""
    with pytest.raises(TypeError, match=r"Row\.visit"):

        class _Shows(Operation[list[Row]]):
            """Show rows to everybody."""

            name = "rows.show"
            permission = Permission.METADATA

            async def run(self, _engine: Engine, _actor: Actor) -> list[Row]:
                """Return none."""
                return []


def test_what_inherits_facts_is_none_until_it_says_so() -> None:
    """Neither a field that is added, nor one that is declared again."""

    class _More(RowFacts):
        added: str
        reason: str

    assert {"added", "reason"} & _More.facts == set()
    assert RowFacts.facts - {"reason"} == _More.facts


def test_a_larger_answer_is_cut_to_the_one_that_is_declared() -> None:
    """A list for everybody drops the visit of a row that has one, already as a value within the engine."""
    page = FactsPage(entries=(ROW,), before=None, searched_back_to=None)
    assert not hasattr(page.entries[0], "visit")
    assert "V0815" not in str(ListMessages.to_json(page))
    assert ListMessages.to_json(page)["entries"][0]["entry"] == 7


def test_an_answer_cannot_hide_a_field_in_a_nested_one() -> None:
    """Marked itself, a field shows what stands below it only where that is marked, too."""

    class _Inner(Answer):
        name: str

    class _Outer(Answer, facts=True):
        inner: dict[str, tuple[_Inner, ...] | None]

    with pytest.raises(TypeError, match=r"_Inner\.name"):
        type(Operation)(
            "_Nested", (Operation[_Outer],), {"__module__": __name__, "name": "x", "permission": Permission.METADATA}
        )
