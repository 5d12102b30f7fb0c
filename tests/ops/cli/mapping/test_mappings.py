"""The commands `mappings check`, `try` and `test`."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from engine.config.settings import shipped
from engine.errors import UsageError
from engine.mapping.authoring.case import cases_of
from tests.ops.command import group

app = group("mappings")
RUNNER = CliRunner()
PID = "PID|1||RB-1^^^RVB^MR||QUINTERO^MARISOL||19840229|F"
CASE = """# kept
tests:
  - case: a name   # kept too
    message: |
      PID|1||1^^^RVB||A^B
    expect:
      action: deliver
      patient:
        name:
          - {family: X}
  - case: fine
    message: |
      PID|1||1^^^RVB||A^B
    expect:
      action: deliver
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file of two messages with line feeds."""
    path = tmp_path / "two.hl7"
    head = "MSH|^~\\&|H|R|||20250701093000||ADT^{}|{}|P|2.5.1\n"
    path.write_text(head.format("A01", "M1") + PID + "\n\n" + head.format("A20", "M2") + "NPU|1\n")
    return path


def test_check_of_the_shipped_set() -> None:
    """The shipped mapping has no problem."""
    result = RUNNER.invoke(app, ["check"])
    assert result.exit_code == 0, result.output
    assert "no problem" in result.stdout


def test_check_tells_problems_on_standard_error(tmp_path: Path) -> None:
    """Each problem is a line with its place, on standard error; exit code 1."""
    (tmp_path / "resources").mkdir()
    text = "resource: Patient\nextends: shipped/patient\nelements:\n  birthDate: PID-99 | date\n"
    (tmp_path / "resources" / "patient.yaml").write_text(text)
    result = RUNNER.invoke(app, ["check", "--mappings", str(tmp_path)])
    assert result.exit_code == 1
    assert "patient.yaml:4:3: elements.birthDate: unknown field PID-99; PID has the fields 1 to 40" in result.stderr
    assert result.stdout == ""
    problems = json.loads(RUNNER.invoke(app, ["check", "--mappings", str(tmp_path), "--json"]).stdout)["problems"]
    assert [(problem["line"], problem["column"]) for problem in problems] == [(4, 3)]


def test_try_shows_the_plan_and_the_resource(file: Path) -> None:
    """Every message of a file is shown: what is done, for whom, and the Patient."""
    result = RUNNER.invoke(app, ["try", str(file)])
    assert result.exit_code == 0, result.output
    assert "A01 M1: deliver (admit)" in result.stdout
    assert '"family": "QUINTERO"' in result.stdout
    assert "A20 M2: filter (bed-status)" in result.stdout


@pytest.fixture
def everything(tmp_path: Path) -> Path:
    """A site's folder that sends resources of every type."""
    names = "Patient, Encounter, RelatedPerson, Coverage, AllergyIntolerance, Condition, Procedure, Observation"
    text = f"mapping: adt\nextends: shipped/adt\nresources: [{names}, Account, PractitionerRole, Provenance]\n"
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "adt.yaml").write_text(text)
    return tmp_path / "site"


def test_try_tells_every_kind_of_interaction(everything: Path, tmp_path: Path) -> None:
    """Whatever a plan asks is told in words: the messages of all shipped cases at once."""
    messages = tmp_path / "all.hl7"
    messages.write_bytes(b"\n\n".join(case.raw for case in cases_of(shipped("mappings"))))
    channel = tmp_path / "ward.yaml"
    channel.write_text(
        "channel: ward\nlisten: {mllp: {port: 2575}}\nallow_merge: true\nauthorities: {RVB: https://mrn.example}\n"
        "destinations: [{name: fhir, base_url: http://127.0.0.1:9/fhir}]\n"
    )
    options = ["--mappings", str(everything), "--channel", str(channel)]
    result = RUNNER.invoke(app, ["try", str(messages), *options])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    told = {line.split()[0] for line in result.stdout.splitlines() if re.match(r"  [a-z]+ ", line)}
    asked = {"keep", "retire", "attest", "follow", "merge", "rename", "move", "link", "unlink", "create", "update"}
    assert asked - told == set()


def test_explain_of_what_refers_to_what_is_listed(everything: Path, tmp_path: Path) -> None:
    """A guarantor is explained although its reference is named later, when the plan is whole."""
    message = tmp_path / "one.hl7"
    head = "MSH|^~\\&|H|R|||20250701093000||ADT^A08|M1|P|2.5.1\n"
    message.write_text(f"{head}{PID}||||||||||AC-9\nGT1|1|G-1|Silva^Carla||||||||MTH\n")
    options = ["--mappings", str(everything), "--element", "Account.guarantor"]
    result = RUNNER.invoke(app, ["explain", str(message), *options])
    assert "Account.guarantor[0].party.display = Carla Silva" in result.stdout
    assert "GT1-3 (in GT1 number 1): Silva^Carla" in result.stdout


def test_try_as_json(file: Path) -> None:
    """Programs read the same as JSON."""
    made = json.loads(RUNNER.invoke(app, ["try", str(file), "--json"]).stdout)
    assert [one["rule"] for one in made] == ["admit", "bed-status"]
    assert made[0]["interactions"][0]["patient"]["birthDate"] == "1984-02-29"


def test_try_on_a_channel(file: Path, tmp_path: Path) -> None:
    """The authorities of a channel file hold."""
    channel = tmp_path / "c.yaml"
    channel.write_text(
        "channel: c\nlisten: {mllp: {port: 2575}}\nauthorities: {RVB: https://mrn.example}\n"
        "destinations: [{name: d, base_url: http://127.0.0.1:1}]\n"
    )
    result = RUNNER.invoke(app, ["try", str(file), "--channel", str(channel)])
    assert "https://mrn.example|RB-1" in result.stdout


def test_try_ends_with_one_where_a_message_is_refused(tmp_path: Path) -> None:
    """What intake would refuse is shown with its finding, and the exit code says so."""
    path = tmp_path / "bad.hl7"
    path.write_text("MSH|^~\\&|H|R|||20250701||ADT^A01|1|P|2.5.1\rPID|1||0000^^^RVB")
    result = RUNNER.invoke(app, ["try", str(path)])
    assert result.exit_code == 1
    assert "204 placeholder-identity PID-3" in result.stdout


DOOR = (
    "channel: c\nlisten: {{mllp: {{port: 2575}}}}\nauthorities: {{RVB: https://mrn.example}}\n{more}"
    "destinations: [{{name: d, base_url: http://127.0.0.1:1}}]\n"
)


@pytest.mark.parametrize(
    ("more", "message", "state", "ack", "reason"),
    [
        pytest.param("", "A01|1|P|2.5.1\r" + PID, "received", "AA", "", id="taken"),
        pytest.param("", "A20|1|P|2.5.1\rNPU|1", "filtered", "AA", "bed-status", id="filtered"),
        pytest.param("", "A01|1|T|2.5.1\r" + PID, "rejected", "AR", "processing-id", id="a test message"),
        pytest.param("", "A01||P|2.5.1\r" + PID, "rejected", "AE", "no-control-id", id="no control id"),
        pytest.param(
            "", "A40|1|P|2.5.1\rPID|1||1^^^RVB\rMRG|2^^^RVB", "rejected", "AR", "merge-not-allowed", id="merge"
        ),
        pytest.param(
            "allow_merge: true\n", "A40|1|P|2.5.1\rPID|1||1^^^RVB\rMRG|1^^^RVB", "rejected", "AE", "self-merge",
            id="self-merge",
        ),
        pytest.param(
            "unknown_authority: refuse\n", "A01|1|P|2.5.1\rPID|1||1^^^XYZ||A^B", "rejected", "AE", "unknown-authority",
            id="unknown authority",
        ),
        pytest.param(
            "sources: [LAB]\n", "A01|1|P|2.5.1\r" + PID, "rejected", "AE", "unlisted-source", id="unlisted source"
        ),
        pytest.param(
            "event_from_evn: true\n", "|1|P|2.5.1\rEVN|A08\r" + PID, "received", "AA", "", id="event of EVN-1",
        ),
        pytest.param(
            "", "|1|P|2.5.1\rEVN|A08\r" + PID, "rejected", "AE", "no-trigger-event", id="no event",
        ),
        pytest.param(
            "conformance: refuse\n", "A01|1|P|2.5.1\r" + PID, "rejected", "AE", "conformance-segment-missing",
            id="conformance",
        ),
    ],
)  # fmt: skip
def test_try_says_what_the_door_says(
    tmp_path: Path, more: str, message: str, state: str, ack: str, reason: str
) -> None:
    """State, acknowledgement code and reason are those of intake on that channel; the file is named."""
    channel, file = tmp_path / "c.yaml", tmp_path / "m.hl7"
    channel.write_text(DOOR.format(more=more))
    file.write_bytes(b"MSH|^~\\&|H|R|||20250701093000||ADT^" + message.encode())
    done = RUNNER.invoke(app, ["try", str(file), "--channel", str(channel), "--json"])
    (made,) = json.loads(done.stdout)
    assert made["file"] == str(file)
    told = (made["door"]["state"], made["door"]["ack"], made["door"]["reason"].partition(":")[0])
    assert told == (state, ack, reason)
    assert done.exit_code == (state == "rejected")
    said = RUNNER.invoke(app, ["try", str(file), "--channel", str(channel)]).stdout
    assert f"{state} {reason}".rstrip() in said
    assert f"answered {ack}" in said
    (explained,) = json.loads(RUNNER.invoke(app, ["explain", str(file), "--channel", str(channel), "--json"]).stdout)
    assert explained["file"] == str(file)


def test_try_of_what_is_no_message(tmp_path: Path) -> None:
    """A file without a message is no crash."""
    path = tmp_path / "no.hl7"
    path.write_text("hello")
    assert RUNNER.invoke(app, ["try", str(path)]).exit_code == 1


def test_a_case_may_stand_beside_its_message(tmp_path: Path) -> None:
    """The message may be a file of its own; a type that nothing sends is told where the case names it."""
    (tmp_path / "admit.hl7").write_text("MSH|^~\\&|A|B|||20260302||ADT^A01|1|P|2.5.1\nPID|1||1^^^RVB^MR||A^B\n")
    cases = tmp_path / "own.yaml"
    cases.write_text("tests: [{case: a, file: admit.hl7, expect: {rule: admit}}]\n")
    assert "1 cases, 0 differ" in RUNNER.invoke(app, ["test", str(cases)]).stdout
    cases.write_text("tests: [{case: a, file: admit.hl7, resources: [Encountr], expect: {rule: admit}}]\n")
    told = str(RUNNER.invoke(app, ["test", str(cases)]).exception)
    assert "own.yaml:1:36: tests.0.resources: found 'Encountr'; did you mean 'Encounter'?" in told


def test_cases_differ_and_are_updated(tmp_path: Path) -> None:
    """Differences are told by path; --update writes what is found and keeps everything else."""
    (tmp_path / "tests").mkdir()
    cases = tmp_path / "tests" / "own.yaml"
    cases.write_text(CASE)
    result = RUNNER.invoke(app, ["test", str(cases)])
    assert result.exit_code == 1
    assert f"{cases}:3: a name" in result.stdout
    assert "patient.name[0].family: expected 'X', found 'A'" in result.stdout
    assert RUNNER.invoke(app, ["test", str(cases), "--update"]).exit_code == 0
    again = RUNNER.invoke(app, ["test", str(cases)])
    assert again.exit_code == 0, again.output
    written = cases.read_text()
    assert "# kept\n" in written
    assert "# kept too" in written
    assert written.endswith("    expect:\n      action: deliver\n")


def test_a_folder_s_own_cases_hold_and_the_shipped_ones_tell_what_it_changes(tmp_path: Path) -> None:
    """What a site changes on purpose fails none of its cases, but is told; a case of the same name replaces one."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "own.yaml").write_text(CASE.replace("family: X", "family: A"))
    (tmp_path / "resources").mkdir()
    text = "resource: Patient\nextends: shipped/patient\nelements:\n  maritalStatus:\n"
    (tmp_path / "resources" / "patient.yaml").write_text(text)
    result = RUNNER.invoke(app, ["test", "--mappings", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert "2 cases, 0 differ\n" in result.stdout
    assert re.search(r"\d+ shipped cases, [1-9]\d* change with this folder; --shipped", result.stdout)
    told = json.loads(RUNNER.invoke(app, ["test", "--mappings", str(tmp_path), "--json"]).stdout)
    changed = told["changed"][0]
    assert all("maritalStatus" in line for line in changed["differences"])
    assert changed["case"] in RUNNER.invoke(app, ["test", "--mappings", str(tmp_path), "--shipped"]).stdout
    name = json.dumps(changed["case"])
    again = f"tests:\n  - case: {name}\n    message: PID|1||1^^^RVB||A^B\n    expect: {{action: deliver}}\n"
    (tmp_path / "tests" / Path(changed["file"]).name).write_text(again)
    after = json.loads(RUNNER.invoke(app, ["test", "--mappings", str(tmp_path), "--json"]).stdout)
    assert (after["cases"], after["shipped"]) == (told["cases"] + 1, told["shipped"] - 1)


def test_a_second_opinion_names_what_is_no_valid_fhir(tmp_path: Path, file: Path) -> None:
    """What a mapping makes must be valid R4 as fhir.resources reads it: a case fails, a trial says so, by element."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "own.yaml").write_text(CASE.replace("family: X", "family: A").replace("A^B", "A^B|C"))
    (tmp_path / "resources").mkdir()
    said = "communication: [{each: PID-6, language: {text: PID-6.9}, extension: [{url: urn:x, valueString: PID-6.1}]}]"
    text = f"resource: Patient\nextends: shipped/patient\nelements: {{{said}}}\n"
    (tmp_path / "resources" / "patient.yaml").write_text(text)
    result = RUNNER.invoke(app, ["test", "--mappings", str(tmp_path)])
    wrong = "Patient.communication[0].language: a required element is missing (fhir.resources)"
    assert result.exit_code == 1
    assert f"own.yaml:3: a name\n    {wrong}\n" in result.stdout
    file.write_text(file.read_text().replace("QUINTERO^MARISOL|", "QUINTERO^MARISOL|C"))
    told = json.loads(RUNNER.invoke(app, ["try", str(file), "--mappings", str(tmp_path), "--json"]).stdout)
    assert [one.get("invalid") for one in told] == [[wrong], None]


@pytest.mark.smoke
def test_shipped_cases_pass() -> None:
    """`mappings test` alone runs what ships."""
    result = RUNNER.invoke(app, ["test"])
    assert result.exit_code == 0, result.output
    assert " 0 differ" in result.stdout


def test_an_offline_command_reads_no_server() -> None:
    """A command's module is read when it is called, so that a check need not wait for Twisted and the rest."""
    code = (
        "import sys\nfrom engine.__main__ import app\n"
        "app(['mappings', 'check'], standalone_mode=False)\n"
        "assert not {'twisted', 'uvicorn', 'fhir.resources', 'engine.ops.cli.run'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_explain_both_ways(file: Path) -> None:
    """From an element to its field, from a field to its elements, and what nobody read."""
    text = RUNNER.invoke(app, ["explain", str(file), "--element", "Patient.birthDate"]).stdout
    assert "Patient.birthDate = 1984-02-29" in text
    assert "PID-7: 19840229" in text
    assert re.search(r"patient\.yaml:\d+  PID-7 \| date", text)
    assert "Patient.gender" not in text
    missing = RUNNER.invoke(app, ["explain", str(file), "--element", "Patient.maritalStatus"]).stdout
    assert "nothing was made of Patient.maritalStatus: the message has nothing that these rules read\n" in missing
    assert re.search(r"patient\.yaml:\d+  PID-16 \| coded\(marital-status\)", missing)
    unknown = RUNNER.invoke(app, ["explain", str(file), "--element", "Patient.birthDat"]).stdout
    assert "no rule makes Patient.birthDat; did you mean 'Patient.birthDate'?" in unknown
    back = RUNNER.invoke(app, ["explain", str(file), "--field", "PID-5.1"]).stdout
    assert "Patient.name[0].family = QUINTERO" in back
    assert "rules that read PID-5.1 Patient name:" in back
    for field, rule in (("PID-3", r"adt\.yaml:\d+  identity PID-3"), ("MRG-5", r"encounter\.yaml:\d+  identity MRG-5")):
        assert re.search(rule, RUNNER.invoke(app, ["explain", str(file), "--field", field]).stdout)
    whole = json.loads(RUNNER.invoke(app, ["explain", str(file), "--json"]).stdout)
    assert whole[0]["rule"]["name"] == "admit"
    assert {"path": "NPU-1", "name": "Bed location"} in whole[1]["unread"]


def test_explain_refuses_what_it_cannot_answer(file: Path, tmp_path: Path) -> None:
    """Both ways at once, or no field, is wrong use; what is no message ends with 1."""
    for wrong in (["--element", "Patient", "--field", "PID-7"], ["--field", "birthDate"]):
        assert isinstance(RUNNER.invoke(app, ["explain", str(file), *wrong]).exception, UsageError)
    empty = tmp_path / "no.hl7"
    empty.write_text("hello")
    assert RUNNER.invoke(app, ["explain", str(empty)]).exit_code == 1


REGISTRY = """
channel: c
listen: {mllp: {port: 2575}}
authorities: {RVB: https://mrn.example}
destinations:
  - {name: wards, base_url: "https://wards.example"}
  - {name: registry, base_url: "https://registry.example", mapping: registry}
"""


@pytest.fixture
def registry(tmp_path: Path) -> list[str]:
    """Options for a channel with two destinations, of which one has a mapping of its own."""
    own = tmp_path / "mine" / "registry" / "resources"
    own.mkdir(parents=True)
    (tmp_path / "mine" / "registry.yaml").write_text("mapping: registry\nextends: shipped/adt\nresources: [Patient]\n")
    (own / "patient.yaml").write_text("resource: Patient\nextends: shipped/patient\nelements:\n  birthDate:\n")
    (tmp_path / "channels").mkdir()
    (tmp_path / "channels" / "c.yaml").write_text(REGISTRY)
    return ["--mappings", str(tmp_path / "mine"), "--channel", str(tmp_path / "channels" / "c.yaml")]


def test_what_a_destination_gets_by_a_mapping_of_its_own(file: Path, registry: list[str]) -> None:
    """`try`, `explain` and `coverage` of it; the answer to the sender is that of the channel's mapping all the same."""
    at = [*registry, "--destination", "registry"]
    own, other = (
        json.loads(RUNNER.invoke(app, ["try", str(file), *options, "--json"]).stdout) for options in (registry, at)
    )
    assert own[0]["door"] == other[0]["door"]
    assert ["birthDate" in one[0]["interactions"][0]["patient"] for one in (own, other)] == [True, False]
    element = ["--element", "Patient.birthDate"]
    assert "Patient.birthDate = " in RUNNER.invoke(app, ["explain", str(file), *registry, *element]).stdout
    assert "no rule makes Patient.birthDate" in RUNNER.invoke(app, ["explain", str(file), *at, *element]).stdout
    unread = {
        one["path"] for one in json.loads(RUNNER.invoke(app, ["coverage", str(file), *at, "--json"]).stdout)["unread"]
    }
    assert "PID-7" in unread
    left = RUNNER.invoke(app, ["diff", "shipped", registry[1], str(file), *registry[2:]])
    assert "0 come out differently" in left.stdout


def test_the_mapping_of_a_destination_that_is_none(file: Path, registry: list[str]) -> None:
    """A misspelt name is told with the nearest; without a channel, or with another mapping, there is no destination."""
    for options, told in (
        ([*registry, "--destination", "registri"], "has no destination 'registri'; did you mean 'registry'?"),
        (["--destination", "registry"], "--destination needs --channel with the file that names it, and no --name"),
        ([*registry, "--destination", "registry", "--name", "adt"], "and no --name"),
    ):
        error = RUNNER.invoke(app, ["try", str(file), *options]).exception
        assert isinstance(error, UsageError)
        assert told in str(error)


def test_the_cases_of_a_destination_s_mapping(registry: list[str], tmp_path: Path) -> None:
    """By the destination's name in the channel files; a case on that channel, too, where its file names the mapping."""
    tests = tmp_path / "mine" / "tests"
    tests.mkdir()
    case = "tests:\n  - {{case: one, channel: c, event: A28, message: {message}, expect: {expect}}}\n"
    message = "PID|1||1^^^RVB^MR||Q^M||19840229|F"
    own = case.format(message=json.dumps(message), expect="{absent: birthDate}")
    (tests / "registry.yaml").write_text(f"mapping: registry\n{own}")
    (tests / "adt.yaml").write_text(
        case.format(message=json.dumps(message), expect="{patient: {birthDate: 1984-02-29}}")
    )
    options = [*registry[:2], "--channels", str(tmp_path / "channels")]
    done = RUNNER.invoke(app, ["test", *options, "--destination", "registry"])
    assert (done.exit_code, done.stdout.splitlines()[0]) == (0, "1 cases, 0 differ"), done.stdout
    done = RUNNER.invoke(app, ["test", *options])
    assert (done.exit_code, done.stdout.splitlines()[0]) == (0, "1 cases, 0 differ"), done.stdout
    error = RUNNER.invoke(app, ["test", *options, "--destination", "registri"]).exception
    assert isinstance(error, UsageError)
    assert "did you mean 'registry'?" in str(error)


def test_check_tells_the_worst_case(tmp_path: Path) -> None:
    """`--cost` shows each event and each file; a line that costs too much is warned of, and the check goes on."""
    shown = RUNNER.invoke(app, ["check", "--cost"], env={"COLUMNS": "200"})
    assert shown.exit_code == 0, shown.output
    assert "a channel's limits" in shown.stdout
    assert "resources/encounter.yaml" in shown.stdout
    assert shown.stderr == ""
    (tmp_path / "resources").mkdir()
    text = (
        "resource: Condition\nextends: shipped/condition\nsegments:\n  DG1:\n    elements:\n"
        "      note: {each: NTE, text: NTE-3}\n"
    )
    (tmp_path / "resources/condition.yaml").write_text(text)
    result = RUNNER.invoke(app, ["check", "--mappings", str(tmp_path)])
    assert result.exit_code == 0
    assert "condition.yaml:6:14: segments.DG1.elements.note.each: all of NTE for each DG1" in result.stderr
    told = json.loads(RUNNER.invoke(app, ["check", "--mappings", str(tmp_path), "--json", "--cost"]).stdout)
    assert [one["line"] for one in told["warnings"]] == [6]
    assert told["cost"]["events"]["A01"]["resources"] > 0
    assert told["cost"]["bounds"] == {"segments": 10_000, "repetitions": 100_000, "patients": 500}
