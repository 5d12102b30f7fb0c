"""The worst case of a mapping, told from its files: what grows with a message, what with its square, and the totals."""

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.config.settings import shipped
from engine.fhir.plan import Follow, Keep, Upsert
from engine.hl7.message import Message
from engine.mapping.authoring.case import channel_of, sending
from engine.mapping.authoring.cost import Costs, MessageLimits, Work
from engine.mapping.compile import MappingSource, compile_mapping, load

Make = Callable[..., Message]
TYPES = (
    "Encounter",
    "RelatedPerson",
    "Condition",
    "Observation",
    "Coverage",
    "Account",
    "CareTeam",
    "PractitionerRole",
)
SMALL = MessageLimits(10, 100, 3)
FILE = """resource: Basic
patient: subject
retired: {language: en}
segments:
  ZBA:
    key: [ZBA-1]
    %s
    elements:
      code: {text: ZBA-2}
      %s
"""


def _costs(folder: Path, line: str, key: str = "list: additive", bounds: MessageLimits = SMALL) -> Costs:
    (folder / "resources").mkdir(exist_ok=True)
    (folder / "resources/basic.yaml").write_text(FILE % (key, line), "utf-8")
    return Costs(load([folder, shipped("mappings")], "adt"), bounds)


def test_a_line_is_worked_out_once_for_what_it_goes_through(tmp_path: Path) -> None:
    """Once for each segment; a field of it, once for each repetition of the message; look-ups by the tables named."""
    plain = _costs(tmp_path, "created: ZBA-3 | date").files["Basic"]
    assert (plain.lines, plain.most) == (3, Work(steps=10 * (1 + 1 + 2), lookups=0, resources=10))
    each = "extension: [{each: ZBA-4, url: x, valueCode: ZBA-4.1}]"
    assert _costs(tmp_path, each).files["Basic"].most.steps == 10 * 2 + 100 * 2  # key and code; url and value
    looked = _costs(tmp_path, 'language: {first: [ZBA-5 | code(yes-no), "en"]}').files["Basic"]
    assert looked.most.lookups == 10


@pytest.mark.parametrize(
    ("line", "key", "squares"),
    [
        ("extension: [{each: NTE, url: x, valueString: NTE-3}]", "list: additive", 1),
        ("extension: [{each: NTE, url: x, valueString: NTE-3}]", "with: [NTE]", 0),
        ("extension: [{each: PID-3, url: x, valueString: CX.1}]", "list: additive", 1),
        ("extension: [{each: ZBA-4, url: x, valueString: ZBA-4.1}]", "list: additive", 0),
    ],
)
def test_what_grows_with_the_square_is_warned_of(tmp_path: Path, line: str, key: str, squares: int) -> None:
    """All segments of a name for each of others are told with their place, unless they belong to these."""
    costs = _costs(tmp_path, line, key)
    told = [str(warning) for warning in costs.warnings()]
    assert len(told) == squares
    assert all("basic.yaml:10:20: segments.ZBA.elements.extension.0.each: all of" in one for one in told), told


def test_a_file_above_the_limit_is_warned_of(tmp_path: Path) -> None:
    """By the bounds of the channel: nothing of what ships is, at those that channels have by themselves."""
    shipping = load([shipped("mappings")], "adt")
    assert Costs(shipping).warnings() == ()
    many = MessageLimits(10_000, 1_000_000, 500)
    told = [str(warning) for warning in Costs(shipping, many).warnings()]
    assert any("patient.yaml" in one and "steps in the worst case, more than 20,000,000" in one for one in told), told


@pytest.fixture(scope="module")
def sent() -> MappingSource:
    """The shipped mapping with lists."""
    return sending(load([shipped("mappings")], "adt"), TYPES)


@pytest.mark.parametrize("event", ["A01", "A08", "A17", "A31", "A40", "A60"])
def test_no_message_asks_for_more_than_was_told(sent: MappingSource, message: Make, event: str) -> None:
    """What a plan holds is within the worst case for messages of its size."""
    lists = [
        part
        for number in range(4)
        for part in (
            f"NK1|{number}|S{number}^B|BRO",
            f"DG1|{number}||I{number}^A^I10|||||||||||||^Osei{number}",
            f"OBX|{number}|NM|{number}^H^LN||1||||||F||||||{number}^Osei~9{number}^Ito",
            f"IN1|{number}|P{number}|7{number}|Mutual",
            f"GT1|{number}|G{number}|S^C",
            f"ROL|{number}|AD|AT|{number}^Osei",
        )
    ]
    people = ["PID|1||A^^^RVB^MR||Q^S|||||||||||||AC1", "PV1|1|I|3W^1^2^RVB||||1^A~2^B~3^C||||||||||||V1^^^RVB"]
    segments = (
        [*people, "PID|2||B^^^RVB^MR"] if event == "A17" else [people[0], "MRG|B^^^RVB"] if event == "A40" else people
    )
    made = message(event, *segments, *lists)
    plan = compile_mapping(sent, channel_of({"authorities": {"RVB": "urn:x"}})).plan(made)
    kept = {one.record.local for one in plan.interactions if isinstance(one, Keep | Follow) and not _more(one)}
    asked = len(kept) + sum(isinstance(interaction, Upsert) for interaction in plan.interactions)
    bounds = MessageLimits(len(made.segments), made.text.count("~") + len(made.segments), 2)
    (told,) = [one for one in Costs(sent, bounds).events if one.event == event]
    assert asked <= told.cost.most.resources
    assert told.requests >= asked


def _more(one: Keep | Follow) -> bool:
    """Tell what says more of a resource that the plan has already."""
    return isinstance(one, Keep) and one.more
