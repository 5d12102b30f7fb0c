"""What is authored, read at once: when the cases beside a mapping are run."""

import re
from pathlib import Path
from typing import Final
from unittest.mock import Mock

import pytest

from engine.errors import ConfigurationError
from engine.mapping import compile as compiler
from engine.pipeline.configuration import Files, configure, examine
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


def test_a_start_compiles_a_mapping_once_for_each_channel(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiling for a channel checks the files as well: doing both would cost a start a tenth of its time."""
    made = Mock(wraps=compiler.make_event_table)
    monkeypatch.setattr(compiler, "make_event_table", made)
    (files.channels / "b.yaml").write_text(CHANNEL.format(name="b", port=1))
    configure(files)
    assert made.call_count == 2


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
