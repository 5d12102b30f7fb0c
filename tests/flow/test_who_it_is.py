"""Events about who a patient is, through the whole engine to the real service: how each ends, and what stands there."""

from collections.abc import Sequence
from typing import Any, Final

from tests.flow.feed import FeedMessage
from tests.flow.rig import Rig, Row

DELIVERED, HELD, REJECTED = "delivered", "held", "rejected"
Step = tuple[str, Sequence[str], str, str]


def pid(*numbers: str, who: str = "") -> str:
    """Return a PID of numbers; `who` a family name, by which a PID speaks of a whole person; empty: numbers alone."""
    listed = "~".join(number if "^" in number else f"{number}^^^RVB^MR" for number in numbers)
    return f"PID|1||{listed}||{who}^Orla||19610714|F" if who else f"PID|1||{listed}"


def mrg(*numbers: str) -> str:
    """Return an MRG of numbers."""
    return "MRG|" + "~".join(number if "^" in number else f"{number}^^^RVB^MR" for number in numbers)


def born(number: str, *others: str, who: str = "") -> Step:
    """Return the registration of a person under a number."""
    return "A28", [pid(number, *others, who=who or f"Family{number}")], DELIVERED, "created"


STORIES: Final[dict[str, list[Step]]] = {
    "nobody had the merged number": [
        born("A1"),
        ("A40", [pid("A1"), mrg("A2")], DELIVERED, "source-absent"),
        ("A40", [pid("A1"), mrg("A2")], DELIVERED, "already-merged"),
    ],
    "nobody had the surviving number": [
        born("B1", who="Benning"),
        ("A30", [pid("B2", who="Benning"), mrg("B1")], DELIVERED, "merged"),
        born("B3"),
        ("A34", [pid("B4"), mrg("B3")], DELIVERED, "renamed"),
        ("A18", [pid("B5"), mrg("B6")], DELIVERED, "nothing-to-merge"),
    ],
    "both numbers on one record": [
        born("C1", "C2"),
        ("A40", [pid("C1"), mrg("C2")], REJECTED, "self-merge"),
    ],
    "merged before, and backwards": [
        born("D1", who="Dunmore"),
        born("D2", who="Dunmore"),
        ("A36", [pid("D1"), mrg("D2")], DELIVERED, "merged"),
        ("A39", [pid("D1"), mrg("D2")], DELIVERED, "already-merged"),
        ("A40", [pid("D2"), mrg("D1")], HELD, "merge-cycle"),
    ],
    "a chain": [
        born("E1", who="Everhart"),
        born("E2", who="Everhart"),
        born("E3", who="Everhart"),
        ("A40", [pid("E2"), mrg("E1")], DELIVERED, "merged"),
        ("A40", [pid("E3"), mrg("E2")], DELIVERED, "merged"),
        ("A40", [pid("E3"), mrg("E1")], DELIVERED, "already-merged"),
        ("A47", [pid("E4"), mrg("E3")], DELIVERED, "renamed"),
        ("A08", [pid("E1", who="Everhart")], DELIVERED, "unchanged"),
    ],
    "numbers of two records in one MRG": [
        born("F1"),
        born("F2"),
        born("F3"),
        ("A40", [pid("F1"), mrg("F2", "F3")], HELD, "merge-lists-several"),
    ],
    "several numbers of one record in MRG, and a literal null": [
        born("G1", who="Grantham"),
        born("G2", "G3", who="Grantham"),
        ("A40", [pid("G1", "null^^^FMP^PN"), mrg("G2", "G3", "null^^^FMP^PN")], DELIVERED, "merged"),
    ],
    "a number of somebody else": [
        born("H1", who="Holloway"),
        ("A28", ["PID|1||H2^^^RVB^MR||Osei^Kwame||19500101|M"], DELIVERED, "created"),
        ("A40", [pid("H1"), mrg("H2")], HELD, "merge-conflict"),
    ],
    "two groups": [
        born("I1", who="Ingram"),
        born("I2", who="Ingram"),
        born("I3", who="Iverson"),
        born("I4", who="Iverson"),
        ("A40", [pid("I1"), mrg("I2"), pid("I3"), mrg("I4")], DELIVERED, "merged"),
    ],
    "a number that changes, and changes back": [
        born("J1"),
        ("A47", [pid("J2"), mrg("J1")], DELIVERED, "renamed"),
        ("A47", [pid("J2"), mrg("J1")], DELIVERED, "already-renamed"),
        ("A46", [pid("J1"), mrg("J2")], DELIVERED, "renamed"),
    ],
    "a number that somebody else has": [
        born("K1"),
        born("K2"),
        ("A47", [pid("K2"), mrg("K1")], HELD, "would-merge"),
    ],
    "a change of a number that nobody had": [
        ("A47", [pid("L2", who="Lorne"), mrg("L1")], DELIVERED, "created"),
        ("A47", [pid("L4"), mrg("L3")], DELIVERED, "nothing-to-rename"),
        ("A48", ["PID|1||L2^^^RVB^MR|ALT-2", "MRG|L2^^^RVB^MR|ALT-1"], DELIVERED, "renamed"),
    ],
    "a link and its end": [
        born("M1"),
        ("A24", [pid("M1"), pid("M2", who="Marsh")], DELIVERED, "linked"),
        ("A24", [pid("M2"), pid("M1")], DELIVERED, "already-linked"),
        ("A37", [pid("M1"), pid("M2")], DELIVERED, "unlinked"),
        ("A37", [pid("M1"), pid("M2")], DELIVERED, "nothing-to-unlink"),
        ("A37", [pid("M1"), pid("M3")], DELIVERED, "nothing-to-unlink"),
        ("A24", [pid("M1"), pid("M1")], REJECTED, "self-link"),
    ],
    "a deletion": [
        ("A29", [pid("N1")], DELIVERED, "nothing-to-delete"),
        born("N1", who="Nunn"),
        ("A29", [pid("N1")], DELIVERED, "updated"),
        ("A29", [pid("N1")], DELIVERED, "unchanged"),
        ("A31", [pid("N1", who="Nunn")], DELIVERED, "unchanged"),
        ("A01", [pid("N1", who="Nunn")], DELIVERED, "updated"),
    ],
    "a number that moves": [
        born("P1", "P2", who="Parr"),
        born("P3", who="Parr"),
        ("A43", [pid("P3"), mrg("P2")], DELIVERED, "moved"),
        ("A43", [pid("P3", "P2"), mrg("P2")], DELIVERED, "already-moved"),
        ("A08", [pid("P2", who="Parr")], DELIVERED, "unchanged"),
        ("A43", [pid("P3"), mrg("P1")], HELD, "last-number"),
    ],
    "moves of what nobody has, to nobody, and to oneself": [
        born("Q1"),
        ("A43", [pid("Q1"), mrg("Q3")], DELIVERED, "source-absent"),
        ("A43", [pid("Q9"), mrg("Q8")], DELIVERED, "nothing-to-move"),
        ("A43", [pid("Q1"), mrg("Q1")], REJECTED, "self-move"),
        ("A43", [pid("Q9"), mrg("Q3")], HELD, "unknown-survivor"),
    ],
    "accounts where none are sent": [
        born("R1"),
        ("A41", [f"{pid('R1')}|||||||||||||||AC2^^^RVB", f"{mrg('R1')}||AC1^^^RVB"], DELIVERED, "source-absent"),
        ("A35", [f"{pid('R1')}|||||||||||||||AC2^^^RVB", f"{mrg('R1')}||AC1^^^RVB"], DELIVERED, "source-absent"),
        ("A49", [f"{pid('R1')}|||||||||||||||AC3^^^RVB", f"{mrg('R1')}||AC2^^^RVB"], DELIVERED, "nothing-to-rename"),
    ],
    "a movement of the past": [
        ("Z99", [pid("O1", who="Orme"), "ZBE|1|20260101||INSERT|Y|A02"], DELIVERED, "created"),
        ("A01", [pid("O1", who="Orme"), "ZBE|1|20260101||INSERT|Y|A01"], DELIVERED, "unchanged"),
    ],
}


def feed() -> list[tuple[FeedMessage, Step]]:
    """Return the messages of all stories, each with what is to become of it."""
    told = []
    for family, (story, steps) in enumerate(STORIES.items()):
        for number, step in enumerate(steps):
            name = f"W{family:02d}{number:02d}"
            head = f"MSH|^~\\&|REG|RIVERBEND|ADTENGINE|HUB|202603020600{number:02d}||ADT^{step[0]}|{name}|P|2.5.1"
            raw = "".join(f"{segment}\r" for segment in (head, f"EVN||202603020600{number:02d}", *step[1])).encode()
            refused = step[2] == REJECTED and step[3] in {"self-link", "self-move"}
            told.append((FeedMessage(name, family, raw, story, "AE" if refused else "AA"), step))
    return told


def numbers(patient: dict[str, Any]) -> dict[str, str]:
    """Return a record's numbers with their use."""
    return {item["value"]: item.get("use", "") for item in patient["identifier"] if "riverbend" in item["system"]}


async def test_each_event_ends_as_it_should(rig: Rig) -> None:
    """Every story is told in order; each message ends by the state and reason that the standard's meaning asks for."""
    told = feed()
    await rig.engine.start()
    await rig.sender([message for message, _step in told], 8).run()
    await rig.drained()
    rows = {row.control_id: row for row in rig.rows()}
    found = {message.control_id: (message.stamp, *_end(rows[message.control_id])) for message, _step in told}
    assert found == {message.control_id: (message.stamp, *step[2:]) for message, step in told}
    (chained,) = await rig.numbered("E1")
    assert numbers(chained) == {"E1": "old", "E2": "old", "E3": "old", "E4": ""}
    (renamed,) = await rig.numbered("J2")
    assert numbers(renamed) == {"J1": "", "J2": "old"}
    assert "end" in next(item for item in renamed["identifier"] if item["value"] == "J2")["period"]
    (made,) = await rig.numbered("L1")
    assert numbers(made) == {"L1": "old", "L2": ""}
    (parted,) = await rig.numbered("M2")
    assert "link" not in parted
    (woken,) = await rig.numbered("N1")
    assert woken["active"] is True
    notes = " ".join(row.notes for row in rows.values())
    assert all(
        note in notes for note in ("reactivated", "inactivated", "inactive", "historic-movement", "not-sent Account")
    )
    untouched = [await rig.numbered(number) for number in ("K1", "K2", "H2", "F3")]
    assert all(patient["meta"]["versionId"] == "1" for (patient,) in untouched)


def _end(row: Row) -> tuple[str, str]:
    return row.state, row.reason
