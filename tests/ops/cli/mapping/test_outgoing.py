"""`mappings out` and `mappings fidelity`, as people type them."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from engine.__main__ import app
from engine.config.settings import shipped

PATIENT = {
    "resourceType": "Patient",
    "id": "1",
    "identifier": [{"system": "urn:oid:1.2.3", "value": "77"}],
    "name": [{"family": "Ash", "given": ["Ann"]}],
}
VISIT = {
    "resourceType": "Encounter",
    "id": "9",
    "status": "in-progress",
    "class": {"code": "IMP"},
    "subject": {"reference": "Patient/1"},
    "participant": [{"type": [{"coding": [{"code": "ATND"}]}], "individual": {"reference": "urn:uuid:1"}}],
}
DOCTOR = {"resourceType": "Practitioner", "name": [{"family": "Tansy"}]}


def run(*arguments: str) -> tuple[int, str]:
    """Run a command; its exit code, and what it prints."""
    result = CliRunner().invoke(app, ["mappings", *arguments])
    return result.exit_code, result.output


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file of one Patient."""
    return _written(tmp_path / "patient.json", PATIENT)


def _written(path: Path, body: object) -> Path:
    path.write_text(json.dumps(body), "utf-8")
    return path


def _bundle(*resources: tuple[str, object]) -> dict[str, object]:
    return {"resourceType": "Bundle", "entry": [{"fullUrl": url, "resource": one} for url, one in resources]}


def test_check_of_the_shipped_files() -> None:
    """There is nothing to tell."""
    code, output = run("out", "check", "--mappings", str(shipped("mappings")))
    assert code == 0
    assert "no problems" in output


def test_check_tells_problems_with_their_places(tmp_path: Path) -> None:
    """As text and as JSON, exit 1."""
    (tmp_path / "out" / "segments").mkdir(parents=True)
    (tmp_path / "out" / "segments" / "pid.yaml").write_text(
        "segment: PID\nextends: shipped/pid\nfields: {PID-7: birth}\n"
    )
    code, output = run("out", "check", "--mappings", str(tmp_path), "--json")
    assert code == 1
    (problem,) = json.loads(output)["problems"]
    assert (problem["line"], problem["path"]) == (3, "fields.PID-7")
    code, output = run("out", "check", "--mappings", str(tmp_path))
    assert code == 1
    assert "pid.yaml:3:" in output


def test_try_shows_the_message(file: Path) -> None:
    """With its event, the place of its rule, and notes."""
    code, output = run("out", "try", str(file), "--change", "patient-created", "--version", "2.3")
    assert code == 0
    assert "A28" in output
    assert "PID|1||77^^^&1.2.3&ISO||Ash^Ann" in output
    code, output = run("out", "try", str(file), "--json")
    assert json.loads(output)["event"] == "A31"


def test_a_bundle_has_what_the_visit_refers_to(tmp_path: Path) -> None:
    """The patient by reference, the practitioner by its full URL."""
    body = _bundle(("x", VISIT), ("y", PATIENT), ("urn:uuid:1", DOCTOR))
    code, output = run("out", "try", str(_written(tmp_path / "b.json", body)), "--change", "visit-started")
    assert code == 0
    assert "A01" in output
    assert "|^Tansy" in output
    assert "note" not in output


def test_a_merge_of_a_bundle(tmp_path: Path) -> None:
    """The one that is replaced is in MRG, whichever comes first."""
    gone = {**PATIENT, "id": "2", "identifier": [{"value": "88"}], "link": [{"type": "replaced-by"}]}
    for number, pair in enumerate((((("x", gone)), ("y", PATIENT)), (("y", PATIENT), ("x", gone)))):
        path = _written(tmp_path / f"{number}.json", _bundle(*pair))
        code, output = run("out", "try", str(path), "--change", "patient-merged")
        assert code == 0
        assert "MRG|88" in output
        assert "PID|1||77^" in output


def test_explain_names_rule_path_and_value(file: Path) -> None:
    """Only the fields that are asked for."""
    code, output = run("out", "explain", str(file), "--field", "PID-5")
    assert code == 0
    assert "PID-5.1 = Ash" in output
    assert "xpn.yaml:" in output
    assert "family" in output
    assert "PID-3" not in output
    code, output = run("out", "explain", str(file), "--field", "PID-5.1", "--json")
    (one,) = json.loads(output)["fields"]
    assert (one["place"], one["found"], one["made"]) == ("PID-5.1", ["Ash"], "Ash")


def test_a_change_that_says_nothing(file: Path, tmp_path: Path) -> None:
    """Exit 1, with the reason and its line."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "adt.yaml").write_text(
        "mapping: adt\nextends: shipped/adt\nevents:\n  patient-updated: {nothing: not-ours}\n"
    )
    code, output = run("out", "try", str(file), "--mappings", str(tmp_path))
    assert code == 1
    assert "nothing to send: not-ours" in output
    assert "adt.yaml:4" in output
    assert run("out", "try", str(file), "--mappings", str(tmp_path), "--json")[0] == 1


@pytest.mark.parametrize(
    ("body", "options", "expected"),
    [
        ("{", (), "is not JSON"),
        ('{"resourceType": "Patient"}', (), "required-segment-missing PID; the event requires"),
        ('{"resourceType": "Organization"}', (), "holds no Patient and no Encounter"),
        (json.dumps(PATIENT), ("--change", "visit-started"), "holds no Encounter"),
        (json.dumps(PATIENT), ("--change", "patient-update"), "did you mean 'patient-updated'?"),
        (json.dumps(PATIENT), ("--version", "2.2"), "--version: found '2.2'"),
        (json.dumps(PATIENT), ("--character-set", "EBCDIC"), "--character-set: found 'EBCDIC'"),
        (
            json.dumps({**PATIENT, "name": [{"family": "Łuk"}]}),
            ("--character-set", "ASCII"),
            "unwritable-character PID-5",
        ),
    ],
)
def test_what_cannot_be_tried(body: str, options: tuple[str, ...], expected: str, tmp_path: Path) -> None:
    """Each says what is wrong and what to do."""
    path = tmp_path / "a.json"
    path.write_text(body, "utf-8")
    result = CliRunner().invoke(app, ["mappings", "out", "try", str(path), *options])
    assert result.exit_code != 0
    assert expected in f"{result.output} {result.exception}"


def test_cases_are_run_and_rules_counted(tmp_path: Path) -> None:
    """The shipped cases hold and use every rule; one that differs is told with its place."""
    code, output = run("out", "test", "--mappings", str(shipped("mappings")), "--unused")
    assert code == 0
    assert "0 differ" in output
    assert "never used: 0 rules" in output
    path = tmp_path / "a.yaml"
    patient = "{gender: male, identifier: [{value: '1'}], name: [{family: Ash}]}"
    path.write_text(f"tests: [{{case: one, change: patient-created, patient: {patient}, expect: {{PID-8: F}}}}]")
    code, output = run("out", "test", str(path), "--json")
    assert code == 1
    report = json.loads(output)
    assert report["failed"][0]["differences"] == ["PID-8: expected 'F', found 'M'"]
    assert report["rules_never_used"]
    code, output = run("out", "test", str(path), "--unused")
    assert "a.yaml:1: one" in output
    assert "XPN.6: suffix" in output


def test_fidelity_lists_every_loss() -> None:
    """The share, and for each loss the rules of both ways; below the share that is asked for exit 1."""
    code, output = run("fidelity", "--json", "--at-least", "95")
    assert code == 0
    report = json.loads(output)
    assert report["share"] > 0.95
    assert report["fields"] - report["fields_equal"] <= len(report["lost"])
    assert all(one["incoming"] and one["outgoing"] and one["count"] for one in report["lost"])
    code, output = run("fidelity", "--corpus", str(shipped("samples")), "--at-least", "100")
    assert code == 1
    assert "fields equal" in output


def test_fidelity_of_nothing(tmp_path: Path) -> None:
    """A message that makes nothing is no measure."""
    path = tmp_path / "a.hl7"
    path.write_text("MSH|^~\\&|A|B|||20260302||ADT^A20|1|P|2.5.1\r")
    result = CliRunner().invoke(app, ["mappings", "fidelity", str(path)])
    assert result.exit_code != 0
    assert "no message makes anything" in f"{result.output} {result.exception}"
