"""One entry as people get it: segments with names, lane, lineage, times; and what of it holds nothing of a patient."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest

from engine.errors import UnknownEntryError, UsageError
from engine.hl7.message import parse
from engine.http.request import HttpRequest
from engine.journal.entry import RequestOutcome, State
from engine.ops.operations.messages import ListMessages, SearchMessages, ShowFacts, ShowMessage
from engine.ops.views.segments import segments_of
from tests.journal.desk import NOW, Desk, open_desk, settlement
from tests.ops.reading import reading

listed = reading(ListMessages)
searched = reading(SearchMessages)
facts = reading(ShowFacts)
shown = reading(ShowMessage)

FAMILY, MRN, VISIT, OPERATOR = "Kanarivogel", "KNRMRN7", "KNRVISIT", "it was Kanarivogel's chart"
CANARIES = (FAMILY, MRN, VISIT, "Kanari", OPERATOR)
RAW = (
    "MSH|^~\\&|REG|RVB|||20260301||ADT^A08^ADT_A01|c1|P|2.5.1\r"
    f'PID|1||{MRN}^^^RVB^MR~{MRN}9^^^RVB^PI||{FAMILY}^An\\T\\na||19470611|F\rPV1|1|I|W1^2^3&x&y\rZPI|1|""\r'
).encode()


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    """A journal with an entry that was written with canaries everywhere, amid others of the same patient."""
    async with open_desk(tmp_path) as desk:
        await desk.record("c0", (f"s|{MRN}",), raw=RAW)
        await desk.record("c1", (f"s|{MRN}",), raw=RAW, visit=VISIT, acknowledgement=f"MSA|AE|{FAMILY}".encode())
        await desk.record("other", ("s|2",))
        await desk.record("c2", (f"s|{MRN}", "s|9"), raw=RAW, parent=2)
        await _deliver(desk)
        yield desk


async def _deliver(desk: Desk) -> None:
    await desk.claim()
    await desk.deliver(1)
    await desk.claim()
    sent = HttpRequest(
        1, "PUT", f"http://x/Patient/1?identifier={MRN}", (("If-Match", FAMILY),), orjson.dumps({"name": FAMILY}), NOW
    )
    await desk.journal.intend(2, "d", sent)
    answer = RequestOutcome(1, 422, ("invalid",), "permanent", 12.5, orjson.dumps({"diagnostics": FAMILY}))
    later = NOW + timedelta(seconds=3)
    end = settlement(
        2, State.HELD, reason="http-422", notes=("stale",), outcomes=(answer,), plan=f'"{FAMILY}"'.encode()
    )
    await desk.journal.settle(replace(end, at=later))


def test_segments_have_the_names_of_their_version() -> None:
    """Fields, repetitions, components and subcomponents by path; null stays visible, escapes are undone."""
    segments = [segment.model_dump(mode="json") for segment in segments_of(parse(RAW), "2.3")]
    assert [(one["name"], one["number"]) for one in segments] == [("MSH", 1), ("PID", 1), ("PV1", 1), ("ZPI", 1)]
    fields = {field["path"]: field for segment in segments for field in segment["fields"]}
    parts = {part["path"]: part for field in fields.values() for part in field["parts"]}
    assert fields["MSH-2"] == {"path": "MSH-2", "name": "Encoding characters", "value": "^~\\&", "parts": []}
    assert fields["PID-3"]["name"] == "Patient identifier list"
    assert parts["PID-3(2).1"] == {"path": "PID-3(2).1", "name": "Id number", "value": f"{MRN}9"}
    assert parts["PID-5.2"]["value"] == "An&na"
    assert parts["PV1-3.3.2"]["value"] == "x"
    assert fields["ZPI-2"]["value"] == '""'
    assert "PID-2" not in fields


def test_a_message_of_no_known_version_is_shown_by_the_newest(tmp_path: Path) -> None:
    """Names come from the newest version; what it does not know has none."""
    found = segments_of(parse(b"MSH|^~\\&|||||||ADT^A08|1|P|9.9\rZZZ|x\r"), "9.9")
    segments = [one.model_dump(mode="json") for one in found]
    assert segments[0]["fields"][0]["name"] == "Field separator"
    assert segments[1]["fields"] == [{"path": "ZZZ-1", "name": "", "value": "x", "parts": []}]


async def test_an_entry_is_shown_whole(desk: Desk) -> None:
    """Message, requests with answers, the lane before and after, children, times."""
    whole = shown(desk.folder, {"entry": 2})
    assert (whole["state"], whole["reason"], whole["visit"]) == ("held", "http-422", VISIT)
    attempt = whole["deliveries"][0]["attempts"][0]
    assert (attempt["body"], attempt["answer"]) == ({"name": FAMILY}, {"diagnostics": FAMILY})
    assert whole["lineage"] == {"parent": None, "children": [4], "replays": [], "edit": None}
    assert [row["entry"] for row in whole["lane"]["before"]] == [1]
    assert [row["entry"] for row in whole["lane"]["after"]] == [4]
    assert whole["timing"]["seconds"] == 3.0
    assert [step["what"] for step in whole["timing"]["steps"]] == ["received", "PUT 422", "held"]
    assert whole["segments"][1]["name"] == "PID"
    assert whole["sound"] is True


async def test_what_is_no_message_is_shown_as_bytes(desk: Desk) -> None:
    """A fragment has no segments; its bytes are shown as far as they are text."""
    seq = await desk.record("", raw=b"\xff\x0bgarbage", state=State.REJECTED, reason="torn")
    whole = shown(desk.folder, {"entry": seq})
    assert (whole["segments"], whole["message"]) == ([], "\\xff\x0bgarbage")
    assert whole["lane"] == {"before": [], "after": []}


async def test_a_body_that_retention_took_is_said_so(desk: Desk) -> None:
    """It is no damage: the entry says when its body was removed and keeps the acknowledgement."""
    for statement in (
        "INSERT INTO worn SELECT seq, acknowledgement, 0 FROM payload WHERE seq = 2",
        "DELETE FROM payload",
    ):
        await desk.journal.act(lambda context, statement=statement: context.connection.execute(statement))
    whole = shown(desk.folder, {"entry": 2})
    assert (whole["sound"], whole["body_removed_at"][:4], whole["message"]) == (True, "1970", "")
    assert FAMILY in whole["acknowledgement"]
    assert shown(desk.folder, {"entry": 1})["sound"] is False


async def test_facts_hold_nothing_of_a_patient(desk: Desk) -> None:
    """None of the canaries that stand in message, answer, request, address, plan, visit and an operator's words."""
    await desk.discard(2, OPERATOR, "somebody")
    for seq in (1, 2, 4):
        told = orjson.dumps(facts(desk.folder, {"entry": seq})).decode()
        assert [canary for canary in CANARIES if canary in told] == []
    told = facts(desk.folder, {"entry": 2})
    assert (told["state"], told["deliveries"][0]["attempts"][0]["codes"]) == ("discarded", ["invalid"])
    assert told["timing"]["steps"][1]["what"] == "PUT 422"


async def test_a_list_holds_nothing_of_a_patient_unless_it_is_searched(desk: Desk) -> None:
    """Without the permission there is no visit, no operator's words, and no way to ask for a patient."""
    await desk.discard(2, OPERATOR, "somebody")
    rows = listed(desk.folder, {})
    assert [canary for canary in CANARIES if canary in orjson.dumps(rows).decode()] == []
    assert [row["entry"] for row in rows["entries"]] == [4, 3, 2, 1]
    for name in ("patient", "visit", "text"):
        with pytest.raises(UsageError, match=r"messages\.search"):
            listed(desk.folder, {name: MRN})
    assert [row["entry"] for row in searched(desk.folder, {"visit": VISIT})["entries"]] == [2]
    assert searched(desk.folder, {"visit": VISIT})["entries"][0]["visit"] == VISIT


@pytest.mark.parametrize("seq", [None, 0, -1, "1", 1.5, True, 2**63])
async def test_an_entry_is_named_by_its_number(desk: Desk, seq: Any) -> None:
    """Anything else is wrong use, and never reaches the file."""
    with pytest.raises(UsageError, match="by its number"):
        shown(desk.folder, {"entry": seq})


async def test_an_entry_that_is_not_there_is_named(desk: Desk) -> None:
    """The number stands in the error."""
    with pytest.raises(UnknownEntryError, match="99"):
        facts(desk.folder, {"entry": 99})
