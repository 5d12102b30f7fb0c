"""What is authored, read at once: when the cases beside a mapping are run."""

import re
from pathlib import Path
from typing import Final
from unittest.mock import Mock

import pytest

from engine.errors import ConfigurationError
from engine.hl7.message import parse
from engine.mapping import compile as compiler
from engine.pipeline.configuration import Files, configure, examine
from engine.pipeline.feed import feeds_of
from tests.ops.alone import CHANNEL
from tests.ops.cli.running.test_run import CASES, PATIENT


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """A channel, and a site's mapping with a case that differs."""
    for name in ("channels", "mine/resources", "mine/tests"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "channels" / "a.yaml").write_text(CHANNEL.format(name="a", port=0))
    (tmp_path / "mine" / "resources" / "patient.yaml").write_text(PATIENT.format(rule="PID-16 | coded(marital-status)"))
    (tmp_path / "mine" / "tests" / "own.yaml").write_text(CASES.format(text="Widowed"))
    return Files(tmp_path / "channels", tmp_path / "mine", tmp_path / "data")


@pytest.mark.matrix
def test_each_mapping_holds_to_its_own_cases(files: Files) -> None:
    """Beside a channel of ADT one for results: the shipped cases of each are run on each, and none of the other's."""
    (files.channels / "b.yaml").write_text(CHANNEL.format(name="b", port=1) + "\nmapping: oru\n")
    shipped = Files(files.channels, None, files.data)
    assert set(configure(shipped, in_force=frozenset()).channels) == {"a", "b"}


def test_cases_are_run_where_a_mapping_or_a_case_is_not_the_one_in_force(files: Files) -> None:
    """A start runs none; a change of a channel alone runs none again; another mapping or another case runs them."""
    assert files.mappings is not None
    in_force = configure(files).marks
    (files.channels / "a.yaml").write_text(CHANNEL.format(name="b", port=0))
    again = configure(files, in_force=in_force)
    assert (set(again.channels), again.marks) == ({"b"}, in_force)
    for file, text in (("tests/own.yaml", CASES), ("resources/patient.yaml", PATIENT)):
        kept = (files.mappings / file).read_text()
        (files.mappings / file).write_text(text.format(text="Single", rule="PID-16 | coded"))
        with pytest.raises(ConfigurationError, match="the case differs in patient"):
            configure(files, in_force=in_force)
        (files.mappings / file).write_text(kept)
    with pytest.raises(ConfigurationError, match="the case differs in patient"):
        configure(files, in_force=frozenset())


def test_a_start_compiles_a_mapping_once_for_each_setting(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many channels with the same settings, and destinations, have it; compiling checks the files as well."""
    made = Mock(wraps=compiler.make_event_table)
    monkeypatch.setattr(compiler, "make_event_table", made)
    (files.channels / "b.yaml").write_text(CHANNEL.format(name="b", port=1))
    again = configure(files)
    assert made.call_count == 1
    assert again.mappings["a"] is again.mappings["b"]
    (files.channels / "b.yaml").write_text(CHANNEL.format(name="b", port=1).replace("New_York", "Chicago"))
    with_registry(files)
    more = SECOND.format(name="second", mapping="registry") + SECOND.format(name="third", mapping="registry")
    (files.channels / "a.yaml").write_text(CHANNEL.format(name="a", port=0) + more)
    made.reset_mock()
    found = configure(files)
    assert made.call_count == 3
    assert set(found.own_mappings) == {("a", "second"), ("a", "third")}
    assert found.own_mappings["a", "second"] is found.own_mappings["a", "third"]


SECOND: Final = '  - {{name: {name}, base_url: "http://127.0.0.1:8/{name}", mapping: {mapping}}}\n'
REGISTRY: Final = "mapping: registry\nextends: shipped/adt\nresources: [Patient]\n{more}"


def with_registry(files: Files, more: str = "") -> None:
    """Write a second mapping, and a channel with a destination that has it."""
    assert files.mappings is not None
    (files.mappings / "registry.yaml").write_text(REGISTRY.format(more=more))
    text = CHANNEL.format(name="a", port=0) + SECOND.format(name="registry", mapping="registry")
    (files.channels / "a.yaml").write_text(text)


def test_a_destination_without_a_mapping_of_its_own_has_the_channel_s(files: Files) -> None:
    """Neither one that names the same: nothing is compiled for it, nothing is planned twice."""
    text = CHANNEL.format(name="a", port=0) + SECOND.format(name="second", mapping="adt")
    (files.channels / "a.yaml").write_text(text)
    assert configure(files).own_mappings == {}


def test_a_mapping_has_files_of_its_own(files: Files) -> None:
    """Those below its folder come first; a folder of no mapping is named, as is an ending that is not read."""
    with_registry(files)
    assert files.mappings is not None
    before = configure(files)
    assert before.own_mappings["a", "registry"].hash != before.mappings["a"].hash
    own = files.mappings / "registry" / "resources"
    own.mkdir(parents=True)
    (own / "patient.yaml").write_text(PATIENT.format(rule="PID-16 | concept(marital-status)"))
    after = configure(files)
    assert after.mappings["a"].hash == before.mappings["a"].hash
    assert after.own_mappings["a", "registry"].hash != before.own_mappings["a", "registry"].hash
    (own / "encounter.yml").write_text("resource: Encounter\n")
    own.parent.rename(files.mappings / "registry-2")
    assert [(problem.found, problem.expected) for problem in examine(files).problems] == [
        ("the folder 'registry-2', which is of no mapping", "did you mean 'registry'?")
    ] * 2
    (files.mappings / "registry-2").rename(own.parent)
    (problem,) = examine(files).problems
    assert (problem.found, problem.expected) == ("the extension '.yml'", "name it .yaml")


@pytest.mark.parametrize(
    ("more", "place", "told"),
    [
        pytest.param(
            "identity:\n  from: [PID-3, PID-2]\n",
            (5, "identity.from"),
            "[PID-3, PID-2] as identity.from; write [PID-3], as adt.yaml:29: whose a number is must be the same",
            id="fields of numbers",
        ),
        pytest.param(
            "placeholder_people:\n  names: [DOE]\n",
            (5, "placeholder_people.names"),
            "[DOE] as placeholder_people.names; write [UNKNOWN, UNK, DOE], as adt.yaml:",
            id="people",
        ),
        pytest.param(
            "events:\n  A40: {rule: merge, do: update patient}\n",
            (5, "events.A40.do"),
            "'update patient' for A40; write merge patient, as adt.yaml:",
            id="a merge",
        ),
        pytest.param(
            "events:\n  A17: {rule: swap, do: update patient}\n",
            (5, "events.A17"),
            "the first PID of A17; write each: PID, as adt.yaml:",
            id="patients of a message",
        ),
    ],
)
def test_the_mappings_of_a_channel_say_the_same_of_who_somebody_is(
    files: Files, more: str, place: tuple[int, str], told: str
) -> None:
    """Where a destination's says otherwise, the check names the line of it, and that of the channel's mapping."""
    with_registry(files, more)
    (problem,) = examine(files).problems
    assert Path(problem.file).name == "registry.yaml"
    assert (problem.line, problem.path) == place
    assert f"{problem.found}; {problem.expected}".startswith(told)
    assert problem.expected.endswith("must be the same at every destination of channel a")


def test_what_a_destination_s_mapping_leaves_out_is_no_other_identity(files: Files) -> None:
    """Events that it skips, what it sends, a list in another order: only who somebody is has to be the same."""
    skipped = "events:\n  A40: {skip: no-merges-here}\n  A01: {rule: admit, do: upsert patient}\n"
    with_registry(files, f"identity:\n  not_identity: [MA, MC, SS, DL, PPN, AN, VN, SN]\n{skipped}")
    assert "Encounter" not in configure(files).own_mappings["a", "registry"].sends


def test_a_shipped_mapping_that_says_otherwise_is_named_in_the_channel_file(files: Files) -> None:
    """Nobody can change that one: the destination's line is the place, also of one for no message of the channel."""
    assert files.mappings is not None
    (files.mappings / "adt.yaml").write_text("mapping: adt\nextends: shipped/adt\nevents:\n  ORU^R01: {skip: later}\n")
    (files.channels / "a.yaml").write_text(CHANNEL.format(name="a", port=0) + SECOND.format(name="lab", mapping="oru"))
    assert examine(files).problems == ()
    with (files.mappings / "adt.yaml").open("a") as file:
        file.write("identity: {untyped: PI}\n")
    (problem,) = examine(files).problems
    assert (Path(problem.file).name, problem.line, problem.path) == ("a.yaml", 7, "destinations.1.mapping")
    assert problem.found == "'oru', with MR as identity.untyped (line 12 of the shipped oru.yaml)"
    assert problem.expected.startswith("write PI, as adt.yaml:5: whose a number is")
    (files.mappings / "adt.yaml").write_text("mapping: adt\nextends: shipped/adt\nidentity: {untyped: PI}\n")
    (problem,) = examine(files).problems
    assert (Path(problem.file).name, problem.line, problem.path) == ("a.yaml", 7, "destinations.1.mapping")
    assert problem.found == "the mapping 'oru', which is for none of the messages of 'adt'"
    assert problem.expected == "name one for ADT, or leave it out"


def test_a_number_under_another_system_at_one_destination(files: Files) -> None:
    """The Patient's file of a destination's mapping is held to the systems of the channel, too."""
    with_registry(files)
    assert files.mappings is not None
    own = files.mappings / "registry" / "resources"
    own.mkdir(parents=True)
    (own / "patient.yaml").write_text(
        "resource: Patient\nextends: shipped/patient\nelements:\n"
        "  identifier: {each: PID-3, system: \"'urn:other'\", value: CX.1 | identifier-value}\n"
    )
    (problem,) = examine(files).problems
    assert (problem.file, problem.line) == (str(own / "patient.yaml"), 4)
    assert problem.found.startswith("'urn:other' as the system of PID-3, which channel a has searched under")


def test_channels_name_a_mapping_each_for_one_destination(files: Files) -> None:
    """What is written by which mapping is the channel's to say; all else of a destination is the same in all files."""
    with_registry(files)
    text = CHANNEL.format(name="b", port=1) + SECOND.format(name="registry", mapping="adt")
    (files.channels / "b.yaml").write_text(text)
    found = configure(files)
    assert set(found.own_mappings) == {("a", "registry")}
    assert found.destinations["registry"].mapping == ""
    (files.channels / "b.yaml").write_text(text.replace("8/registry", "7/registry"))
    (problem,) = examine(files).problems
    assert problem.path == "destinations.1.base_url"


INVOICE: Final = (
    "resource: Invoice\npatient: subject\nidentity: {type: AN, keys: [PID-18]}\nelements: {status: draft}\n"
)
EVENTS: Final = """mapping: adt
extends: shipped/adt
resources: [Encounter, Invoice]
events: {A04: {do: [upsert patient, upsert invoice]}}
"""


def test_a_type_that_stu3_does_not_have(files: Files) -> None:
    """It is refused by name at the destination that speaks STU3, with its place; R4 takes it."""
    assert files.mappings is not None
    (files.mappings / "adt.yaml").write_text(EVENTS)
    (files.mappings / "resources/invoice.yaml").write_text(INVOICE)
    channel = files.channels / "a.yaml"
    text = channel.read_text()
    assert "Invoice" in configure(files).mappings["a"].sends
    channel.write_text(text.replace("base_url:", "fhir: STU3, base_url:"))
    told = "a.yaml:6:21: destinations.0.fhir: STU3 has no Invoice; send it to R4, or take it out of the mapping 'adt'"
    with pytest.raises(ConfigurationError, match=re.escape(told)):
        configure(files)


def test_a_number_under_another_system_than_the_channel_searches(files: Files) -> None:
    """It is refused at its line in the mapping, with the channel and its systems; the channel's own one passes."""
    assert files.mappings is not None
    (files.mappings / "datatypes").mkdir()
    cx = files.mappings / "datatypes/cx.yaml"
    cx.write_text("datatype: CX\nextends: shipped/cx\nelements: {system: 'https://mrn.example'}\n")
    channel = files.channels / "a.yaml"
    text = channel.read_text()
    told = "cx.yaml:3:12: elements.system: 'https://mrn.example' as the system of PID-3, which channel a has searched"
    for authorities in ("{}", "{RVB: 'https://mrn.riverbend.example'}"):
        channel.write_text(re.sub("(?<=authorities: ).*", authorities, text))
        with pytest.raises(ConfigurationError, match=re.escape(told)):
            configure(files)
    channel.write_text(re.sub("(?<=authorities: ).*", "{RVB: 'https://mrn.example'}", text))
    assert set(configure(files).channels) == {"a"}


def test_a_filter_that_takes_more_than_its_words_say_is_warned_of(files: Files) -> None:
    """A negative comparison of a field that not every event has, of a channel and of its mapping, each in its place."""
    assert files.mappings is not None
    (files.channels / "a.yaml").write_text(
        CHANNEL.format(name="a", port=0) + "\nfilters:\n  - {rule: out, when: not PV1-2 = I, do: filter}\n"
    )
    (files.mappings / "adt.yaml").write_text(
        "mapping: adt\nextends: shipped/adt\nfilters: [{rule: in, when: PV1-2 != O, do: filter}]\n"
    )
    told = {Path(one.file).name: (one.path, one.found.partition(" (")[0]) for one in examine(files).warnings}
    assert told == {
        "a.yaml": ("filters.0.when", "not PV1-2 = I, which holds where PV1-2 is empty"),
        "adt.yaml": ("filters.0.when", "PV1-2 != O, which does not hold where PV1-2 is empty"),
    }


RELAYS: Final = """\
  - {{name: radiology, type: mllp, host: 127.0.0.1, port: 1, send: edited, edit: [{{set: {{MSH-5: {name}}}}}]}}
  - {{name: copy, type: mllp, host: 127.0.0.1, port: 2}}
"""


def test_the_edits_of_relays_are_compiled_with_their_channel(files: Files) -> None:
    """Two channels share the mapping and not the edit; another edit is another channel, and no other mapping."""
    relays = {name: RELAYS.format(name=name) for name in ("RIS", "LAB")}
    (files.channels / "a.yaml").write_text(CHANNEL.format(name="a", port=0) + relays["RIS"])
    other = relays["LAB"].replace("radiology", "lab").replace("copy", "archive")
    (files.channels / "b.yaml").write_text(CHANNEL.format(name="b", port=1) + other)
    found = configure(files)
    assert set(found.edits) == {("a", "radiology"), ("b", "lab")}
    assert found.mappings["a"] is found.mappings["b"]
    feeds = feeds_of(found.channels, found.mappings, found.own_mappings, found.edits)
    edit = feeds["a"].edit_at("radiology")
    assert edit is not None
    assert edit is not feeds["b"].edit_at("lab")
    assert (feeds["a"].edit_at("copy"), feeds["a"].edit_at("lab")) == (None, None)
    message = parse(b"MSH|^~\\&|REG|RVB|||20260301||ADT^A08|C1|P|2.5.1\rPID|1\r")
    assert edit.apply(message) == message.raw.replace(b"RVB|||", b"RVB|RIS||")
    (files.channels / "a.yaml").write_text(CHANNEL.format(name="a", port=0) + relays["LAB"])
    again = configure(files, in_force=found.marks)
    assert [again.channels[name] == found.channels[name] for name in ("a", "b")] == [False, True]
    assert again.edits["a", "radiology"].hash != edit.hash
    assert again.marks == found.marks


def test_a_faulty_edit_is_told_with_all_else_that_is_wrong(files: Files) -> None:
    """In the channel's file, with line and column; what is guessed of a misspelt key is not told of twice."""
    text = CHANNEL.format(name="a", port=0) + RELAYS.format(name="RIS").replace("MSH-5", "MSH-99")
    (files.channels / "a.yaml").write_text(f"{text}modus: live\n")
    problems = examine(files).problems
    line = text[: text.index("MSH-99")].count("\n") + 1
    assert [(one.line, one.path) for one in problems if "edit" in one.path] == [
        (line, "destinations.1.edit.0.set.MSH-99")
    ]
    assert any(one.path == "modus" for one in problems)
