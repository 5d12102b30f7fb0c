"""The commands of mappings on a channel with filters: which one held, where it stands, and cases that try them."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from engine.pipeline.configuration import Files, configure, examine
from tests.ops.command import group

app = group("mappings")
RUNNER = CliRunner()
HEAD = "MSH|^~\\&|REG|RVB|||20260302080300||ADT^A01|{id}|P|2.5.1\n"
PID = "PID|1||{id}^^^RVB^MR||{family}^Ada||19800101|F\n"
CHANNEL = """\
channel: riverbend
listen: {mllp: {port: 0}}
destinations:
  - {name: wards, base_url: http://127.0.0.1:1}
  - {name: archive, base_url: http://127.0.0.1:2}
filters:
  - {rule: test-patients, when: PID-5.1 starts-with ZZTEST, do: filter}
  - {rule: to-the-wards, when: "PV1-2 in [I, E]", send_to: [wards]}
  - {rule: nobody, when: PID-5.1 = NOBODY, do: refuse}
"""
CASES = """\
tests:
  - case: test patients are filtered
    channel: riverbend
    message: |
      PID|1||1^^^RVB^MR||ZZTEST^Ada||19800101|F
    expect: {action: filter, rule: test-patients, filter: {does: filter}}
  - case: inpatients go to the wards only
    channel: riverbend
    message: |
      PID|1||1^^^RVB^MR||Okafor^Ada||19800101|F
      PV1|1|I
    expect: {action: deliver, rule: admit, filter: {rule: to-the-wards, send_to: [wards]}}
  - case: others go everywhere
    channel: riverbend
    message: |
      PID|1||1^^^RVB^MR||Okafor^Ada||19800101|F
      PV1|1|O
    expect: {action: deliver, filter: ""}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of channels, one of mappings with cases, and a file of three messages."""
    for name, text in (("channels/a.yaml", CHANNEL), ("mine/tests/filters.yaml", CASES)):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(text)
    said = (("1", "ZZTESTA", "I"), ("2", "Okafor", "E"), ("3", "Okafor", "O"))
    texts = [HEAD.format(id=id_) + PID.format(id=id_, family=family) + f"PV1|1|{kind}\n" for id_, family, kind in said]
    (tmp_path / "three.hl7").write_text("\n".join(texts))
    return tmp_path


def ran(folder: Path, *words: str) -> Result:
    """Run a command on the channel of the folder, or on the folder."""
    result = RUNNER.invoke(app, [word.replace("FOLDER", str(folder)) for word in words])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


ON = ("FOLDER/three.hl7", "--channel", "FOLDER/channels/a.yaml")


def test_explain_names_the_filter_and_its_line(folder: Path) -> None:
    """One that ends the message stands in place of the event's rule, one that sends it on beside it."""
    told = [one for one in ran(folder, "explain", *ON).stdout.splitlines() if "a.yaml" in one or ": deliver" in one]
    file = folder / "channels" / "a.yaml"
    lines = [one for one in told if not one.startswith("    filter ")]
    assert lines[0] == f"A01 1: filter (test-patients)  {file}:7"
    assert lines[1].startswith("A01 2: deliver (admit)")
    assert lines[2] == f"  sent to wards only (to-the-wards)  {file}:8"
    assert lines[3].startswith("A01 3: deliver (admit)")
    assert len(lines) == 4
    assert f"    filter when PID-5.1 starts-with ZZTEST: lets it through (PID-5.1: ZZTESTA)  {file}:7" in told
    assert any("ZZTEST: does not let it through" in one for one in told)


def test_try_shows_it(folder: Path) -> None:
    """As JSON, with what it does and where it stands."""
    made = json.loads(ran(folder, "try", *ON, "--json").stdout)
    assert [one.get("filter", {}).get("rule") for one in made] == ["test-patients", "to-the-wards", None]
    assert [one["door"]["state"] for one in made] == ["filtered", "received", "received"]
    assert (made[1]["filter"]["send_to"], made[1]["filter"]["line"]) == (["wards"], 8)


def test_coverage_counts_each_filter(folder: Path) -> None:
    """Also the one that no message came to; what filters read counts as read."""
    text = ran(folder, "coverage", *ON).stdout
    file = folder / "channels" / "a.yaml"
    told = [splitline.split() for splitline in text.splitlines() if str(file) in splitline]
    assert told == [
        ["1", "test-patients", "filter", f"{file}:7"],
        ["1", "to-the-wards", "send", "wards", f"{file}:8"],
        ["0", "nobody", "refuse", f"{file}:9"],
    ]
    made = json.loads(ran(folder, "coverage", *ON, "--json").stdout)
    assert [one["count"] for one in made["filters"]] == [1, 1, 0]


TEST = ("test", "--mappings", "FOLDER/mine", "--channels", "FOLDER/channels")


def test_cases_run_on_a_channel_by_name(folder: Path) -> None:
    """What its filters do is expected as anything else, and differs where they were changed."""
    assert ran(folder, *TEST).stdout.startswith("3 cases, 0 differ")
    file = folder / "channels" / "a.yaml"
    file.write_text(CHANNEL.replace("send_to: [wards]", "send_to: [archive]"))
    result = ran(folder, *TEST)
    assert (result.exit_code, "filter.send_to[0]: expected 'wards', found 'archive'" in result.stdout) == (1, True)


def test_a_channel_that_is_not_there_is_told(folder: Path) -> None:
    """With the place of the case, and the nearest name."""
    file = folder / "mine" / "tests" / "filters.yaml"
    file.write_text(CASES.replace("channel: riverbend\n", "channel: riverbed\n", 1))
    result = RUNNER.invoke(app, [one.replace("FOLDER", str(folder)) for one in TEST])
    assert f"{file}:3:5: tests.0.channel: no channel 'riverbed'; did you mean 'riverbend'?" in str(result.exception)


def test_a_reload_runs_them_where_the_filters_change(folder: Path) -> None:
    """A changed channel file is refused where a case differs; nothing is run again where nothing changed."""
    files = Files(folder / "channels", folder / "mine", folder / "data")
    in_force = configure(files, in_force=frozenset()).marks
    file = folder / "channels" / "a.yaml"
    file.write_text(CHANNEL.replace("ZZTEST", "ZZTESTS"))
    (problem,) = examine(files, in_force=in_force).problems
    assert (problem.path, problem.found) == ("tests.0", "the case differs in action, rule, filter")
    file.write_text(CHANNEL.replace("channel: riverbend", "channel: other"))
    (problem,) = examine(files, in_force=in_force).problems
    assert "no channel 'riverbend'" in problem.found
    file.write_text(CHANNEL)
    assert configure(files, in_force=in_force).marks == in_force
