"""`mappings infer`: a report of a folder of messages, and drafts that pass the checks as they stand."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from engine.config.channel import Channel
from engine.config.settings import shipped
from engine.config.source import read, validate
from engine.errors import ConfigurationError, UsageError
from engine.mapping.compile import load
from engine.ops.cli.operating.channels import app as channels_app
from engine.pipeline.configuration import Files, configure, examine
from tests.ops.command import group

app = group("mappings")
RUNNER = CliRunner()
HEAD = "MSH|^~\\&|REG|RVB|ENG|CDIS|20250701093000||ADT^{}|M1|{}|2.5.1"
PID = "PID|1||100234^^^RVB^MR~77^^^LKS&1.2.3&ISO^MR||QUINTERO^MARISOL||198402291215|F||||||||ZZ"
# What is of a patient in these messages, in small letters.
PERSONAL = ("quintero", "marisol", "100234", "19840229", "interpreter required")

Write = Callable[..., Path]


def _ran(*words: str | Path) -> Result:
    return RUNNER.invoke(app, ["infer", *(str(word) for word in words)])


def _report(*words: str | Path) -> dict[str, Any]:
    result = _ran(*words, "--json")
    assert result.exit_code == 0, result.output
    return dict(json.loads(result.stdout))


def _raw(*segments: str, event: str = "A01", processing: str = "P") -> bytes:
    return "\r".join((HEAD.format(event, processing), *segments)).encode()


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write messages into files of a folder, and return it."""

    def written(*raws: bytes) -> Path:
        folder = tmp_path / "samples" / "day"
        folder.mkdir(parents=True, exist_ok=True)
        for number, raw in enumerate(raws, 1):
            (folder / f"{number}.hl7").write_bytes(raw)
        return folder.parent

    return written


@pytest.fixture
def samples(write: Write) -> Path:
    """Admissions, a merge, an event of the site's own, a result, a Z segment, bytes that are no UTF-8, and rubbish."""
    own = "ZPI|1|Y^interpreter required|20250102|Y"
    return write(
        _raw("EVN||20250701093000", PID, "PV1|1|I|||||||||||||||||V1^^^RVB^VN", own),
        _raw("EVN||20250701093000", PID, "AL1|1|DA|PEN^Penicillin", own),
        _raw(PID, "MRG|5^^^RVB^MR", event="A40"),
        _raw(PID.replace("|1||", "|1|8^^^OLD|"), event="Z47", processing="T"),
        _raw(PID, "OBR|1|o1^CDIS", event="R01").replace(b"ADT", b"ORU"),
        _raw(PID.replace("ZZ", "é^^NOWHERE")).decode().encode("latin-1"),
        b"no message",
    )


def test_the_report_tells_what_messages_are(samples: Path) -> None:
    """Every section of it, from a folder."""
    found = _report(samples)
    assert found["messages"] == 6
    assert [(one["reason"], one["count"]) for one in found["unreadable"]] == [("undecodable", 1), ("no-header", 1)]
    assert found["senders"] == [{"application": "REG", "facility": "RVB", "count": 6}]
    assert found["versions"] == [{"version": "2.5.1", "count": 6}]
    events = {one["event"]: (one["does"], one["rule"], one["action"], one["count"]) for one in found["events"]}
    assert events["A01"] == ("upsert patient, upsert encounter", "admit", "deliver", 3)
    assert events["A40"] == ("merge patient", "merge", "deliver", 1)
    assert events["Z47"] == ("no rule of its own", "unknown-event", "filter", 1)
    assert events["ORU^R01"][2] == "refuse"
    assert [one["event"] for one in found["refusals"]] == ["ORU^R01"]
    assert {(one["namespace"], one["universal_id"], one["field"], one["type"]) for one in found["authorities"]} >= {
        ("RVB", "", "PID-3", "MR"),
        ("LKS", "1.2.3", "PID-3", "MR"),
        ("RVB", "", "PV1-19", "VN"),
        ("OLD", "", "PID-2", ""),
    }
    assert {"type": "VN", "fields": ["PV1-19"], "count": 1} in found["identifier_types"]
    assert {one["path"]: one["kinds"] for one in found["z_segments"]}["ZPI-4"] == "Y or N (2)"
    assert found["timestamps"][0] == {
        "path": "MSH-7",
        "name": "Date time of message",
        "without_zone": 6,
        "with_zone": 0,
    }
    assert {"table": "marital-status", "code": "ZZ", "field": "PID-16", "times": 5} in found["unmapped"]
    assert "PID-8" in next(one for one in found["tables"] if one["table"] == "administrative-sex")["fields"]
    assert {"AL1-3", "ZPI-2"} <= {one["path"] for one in found["unread"]}
    assert [one["fault"] for one in found["character_sets"] if one["fault"]] == [
        "MSH-18 is empty, which means UTF-8, and this is none"
    ]


def test_a_sender_that_says_its_event_in_evn(write: Write, tmp_path: Path) -> None:
    """The draft takes its messages, and says how many there are."""
    samples = write(_raw("EVN|A08", PID).replace(b"ADT^A01", b"ADT"), _raw("EVN|A01", PID))
    assert _ran(samples, "--out", tmp_path / "site").exit_code == 0
    (file,) = (tmp_path / "site" / "channels").glob("*.yaml")
    assert validate(read(file), Channel).event_from_evn
    assert "event_from_evn: true   # MSH-9 is ADT alone in 1 of 2 messages" in file.read_text()


def test_nothing_of_a_patient_is_told(samples: Path, tmp_path: Path) -> None:
    """Neither in the terminal nor as JSON, on the page or in the drafts; a page names no files either."""
    page = tmp_path / "page.html"
    shown = [_ran(samples).stdout, _ran(samples, "--json", "--html", page, "--out", tmp_path / "site").stdout]
    shown += [page.read_text("utf-8"), *(file.read_text("utf-8") for file in (tmp_path / "site").rglob("*.yaml"))]
    assert len(shown) > 5
    for text in shown:
        assert [value for value in PERSONAL if value in text.lower()] == []
    assert "Assigning authorities" in page.read_text("utf-8")
    assert "7.hl7" in shown[0]
    assert ".hl7" not in page.read_text("utf-8")


def test_drafts_pass_the_checks_once_they_are_decided(samples: Path, tmp_path: Path) -> None:
    """Both checks, as commands; what is in them comes from the messages, with the evidence and the decisions marked."""
    site = tmp_path / "site"
    result = _ran(samples, "--out", site)
    assert result.exit_code == 0, result.output
    assert f"next: adt-engine mappings check --mappings {site}/mappings --name adt" in result.stdout
    checked = RUNNER.invoke(app, ["check", "--mappings", str(site / "mappings")])
    assert checked.exit_code == 0, checked.output
    draft, events = ((site / name).read_text() for name in ("channels/rvb-reg.yaml", "mappings/adt.yaml"))
    rows = (site / "mappings/tables/marital-status.yaml").read_text()
    decided = draft.replace("urn:decide:authority", "urn:x").replace("destination.invalid", "fhir.example")
    for file in site.rglob("*.yaml"):
        text = decided if file.name == "rvb-reg.yaml" else file.read_text()
        file.write_text(text.replace("# decide:", "#"))
    words = ["check", "--channels", str(site / "channels"), "--mappings", str(site / "mappings")]
    checked = RUNNER.invoke(channels_app, [*words, "--strict", "--offline"])
    assert checked.exit_code == 0, checked.output
    (site / "channels" / "rvb-reg.yaml").write_text(draft)
    channel = validate(read(site / "channels" / "rvb-reg.yaml"), Channel)
    assert channel.authorities == {
        "RVB": "urn:decide:authority:RVB",
        "LKS": "urn:oid:1.2.3",
        "OLD": "urn:decide:authority:OLD",
    }
    assert (channel.mode, channel.allow_merge, channel.charset) == ("shadow", True, "8859/1")
    assert (channel.sources, channel.processing_ids) == (("REG|RVB",), ("P", "T"))
    text = (site / "channels" / "rvb-reg.yaml").read_text()
    for line in (
        "timezone: UTC   # decide:",
        "base_url: https://destination.invalid",
        "if_none_exist: demographics   # decide:",
        "RVB: urn:decide:authority:RVB   # decide:",
    ):
        assert line in text
    assert "whether ORU messages are to be filtered" in text
    assert "  Z47: {unhandled: unknown-event}   # decide: what it should do; in 1 of 6 messages" in events
    assert "# resources: [Patient, Encounter, AllergyIntolerance]" in events
    assert "#   NOWHERE: https://...   # decide: its URI; PID-16, 1 times" in events
    assert "#   ZZ: {code: ..., display: ...}   # decide: what it means; PID-16, 5 times" in rows


def test_what_is_proposed_in_comments_would_pass_too(samples: Path, tmp_path: Path) -> None:
    """The extensions of Z fields, and what else is sent, once their marks are taken away."""
    mappings = tmp_path / "site" / "mappings"
    _ran(samples, "--out", tmp_path / "site")
    patient = mappings / "resources" / "patient.yaml"
    patient.write_text(patient.read_text().replace("\n# ", "\n").replace("\n#  ", "\n  "))
    events = mappings / "adt.yaml"
    events.write_text(events.read_text().replace("# resources:", "resources:").replace("# identity:", "identity:"))
    assert "ZPI-4 | boolean(yes-no)" in patient.read_text()
    source = load([mappings, shipped("mappings")], "adt")
    added = source.documents.resources["Patient"].value["elements"]["extension"]
    assert {"url": "urn:decide:extension:ZPI-4", "valueBoolean": "ZPI-4 | boolean(yes-no)"} in added


def test_drafts_are_written_over_only_if_told(samples: Path, tmp_path: Path) -> None:
    """The first file that is there is named; nothing is written then."""
    site = tmp_path / "site"
    (site / "mappings").mkdir(parents=True)
    (site / "mappings" / "adt.yaml").write_text("mine")
    error = _ran(samples, "--out", site).exception
    assert isinstance(error, UsageError)
    assert f"{site}/mappings/adt.yaml is there already" in str(error)
    assert "--force" in str(error)
    assert not (site / "channels").exists()
    assert _ran(samples, "--out", site, "--force", "--feed", "ward").exit_code == 0
    assert (site / "mappings" / "adt.yaml").read_text() != "mine"
    assert (site / "channels" / "ward.yaml").exists()


def test_wrong_use_is_told(samples: Path, tmp_path: Path) -> None:
    """A name that no channel can have, a folder that cannot be made, and samples without a single message."""
    (tmp_path / "rubbish").write_text("rubbish")
    error = _ran(tmp_path / "rubbish", "--out", tmp_path / "none").exception
    assert isinstance(error, UsageError)
    assert "(no-header): nothing is drafted" in str(error)
    assert not (tmp_path / "none").exists()
    assert isinstance(_ran(samples, "--feed", "a b").exception, UsageError)
    (tmp_path / "file").write_text("")
    error = _ran(samples, "--out", tmp_path / "file").exception
    assert isinstance(error, UsageError)
    assert "name another folder" in str(error)


def test_a_draft_extends_what_ships(samples: Path, tmp_path: Path) -> None:
    """A table or a mapping of the site's own is none that a draft could extend."""
    own = tmp_path / "own"
    for folder in ("tables", "resources"):
        (own / folder).mkdir(parents=True)
    (own / "ward.yaml").write_text("mapping: ward\nevents: {A01: {do: upsert patient}}\n")
    (own / "tables" / "wed.yaml").write_text(
        "table: wed\nsource: ours\nlicence: CC0-1.0\nsystem: urn:x\ncodes: {A: {code: A, display: A}}\n"
    )
    (own / "resources" / "patient.yaml").write_text(
        "resource: Patient\nextends: shipped/patient\nelements:\n  maritalStatus: PID-16 | coded(wed)\n"
    )
    site = tmp_path / "site"
    result = _ran(samples, "--mappings", own, "--out", site)
    assert result.exit_code == 0, result.exception
    assert not (site / "mappings" / "tables" / "wed.yaml").exists()
    assert RUNNER.invoke(app, ["check", "--mappings", str(site / "mappings")]).exit_code == 0
    error = _ran(samples, "--mappings", own, "--name", "ward", "--out", site, "--force").exception
    assert isinstance(error, UsageError)
    assert "give --name adt or oru" in str(error)


def test_results_get_their_mapping(write: Write, tmp_path: Path) -> None:
    """A feed of results is drafted for the mapping of results."""
    site = tmp_path / "site"
    folder = write(*[_raw(PID, "OBR|1|o1^CDIS|f1^LAB|GLU^Glucose^L", event="R01").replace(b"ADT", b"ORU")] * 2)
    result = _ran(folder, "--out", site)
    assert result.exit_code == 0, result.output
    assert validate(read(site / "channels" / "rvb-reg.yaml"), Channel).mapping == "oru"
    assert (
        '# "CDIS^PLAC": urn:decide:authority:CDIS^PLAC   # decide:' in (site / "channels" / "rvb-reg.yaml").read_text()
    )
    assert RUNNER.invoke(app, ["check", "--mappings", str(site / "mappings"), "--name", "oru"]).exit_code == 0


def test_the_shipped_samples(tmp_path: Path) -> None:
    """What ships can be inferred from, and the drafts check in shadow mode; live, all that is left open is an error."""
    site = tmp_path / "site"
    assert _ran(shipped("samples"), "--out", site).exit_code == 0
    words = ["check", "--channels", str(site / "channels"), "--mappings", str(site / "mappings"), "--offline"]
    assert RUNNER.invoke(channels_app, words).exit_code == 0
    for file in (site / "channels").glob("*.yaml"):
        file.write_text(file.read_text().replace("mode: shadow", "mode: live"))
    refused = RUNNER.invoke(channels_app, words).exception
    assert isinstance(refused, ConfigurationError)
    assert [one for one in refused.problems if not one.found.startswith(("the placeholder", "undecided: "))] == []


def test_what_is_left_open_is_an_error_of_a_live_channel_alone(samples: Path, tmp_path: Path) -> None:
    """Each placeholder and each mark is named with file and line; a warning in shadow mode; a start says the same."""
    site = tmp_path / "site"
    assert _ran(samples, "--out", site).exit_code == 0
    channel, files = site / "channels" / "rvb-reg.yaml", Files(site / "channels", site / "mappings", tmp_path / "data")
    marks = {
        (str(file), number)
        for file in site.rglob("*.yaml")
        for number, line in enumerate(file.read_text().splitlines(), 1)
        if "# decide:" in line
    }
    assert len(marks) > 12
    examined = examine(files, machine=False)
    assert (examined.problems, {(one.file, one.line) for one in examined.warnings}) == ((), marks)
    table = ["check", "--mappings", str(site / "mappings"), "--channel", str(channel)]
    assert RUNNER.invoke(app, table).exit_code == 0
    for mode in ("mode: live   # decide: x", "mode: load   # decide: x"):
        channel.write_text(re.sub("mode: shadow.*", mode, channel.read_text()))
        refused = examine(files, machine=False)
        assert refused.configuration is None
        assert {(one.file, one.line) for one in refused.problems} == marks
        with pytest.raises(ConfigurationError, match=r"marital-status\.yaml:5:37: undecided: what it means"):
            configure(files, machine=False)
        checked = RUNNER.invoke(app, table)
        assert checked.exit_code == 1
        assert "marital-status.yaml:5:37: undecided: what it means; PID-16" in checked.stderr
        channel.write_text(re.sub("mode: live.*", "mode: shadow", channel.read_text()))
    texts = {one.found.partition(": ")[0] for one in refused.problems} | {str(one) for one in refused.problems}
    for part in ("timezone: undecided", "allow_merge: undecided", "mode: undecided", "base_url: the placeholder"):
        assert any(part in text for text in texts)


TEXT = st.text(alphabet=st.sampled_from("AZ09 .:/-_'\"#{}[]!%@`,?*&\\|^~é\u2028\ufffenul\t"), max_size=12)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=st.lists(TEXT, min_size=6, max_size=6), rest=st.binary(max_size=80))
def test_whatever_stands_in_messages_drafts_pass_the_checks(tmp_path: Path, names: list[str], rest: bytes) -> None:
    """No name breaks out of its place in a file, and no bytes end the command."""
    application, facility, authority, type_, event, own = names
    text = (
        f"MSH|^~\\&|{application}|{facility}|||20250701093000||ADT^{event}|1|P|2.5.1\r"
        f"PID|1||1^^^{authority}&{facility}&ISO^{type_}||A^B|||{own}||||||||{own}^^{authority}\rZPI|{own}|{type_}\r"
    )
    (tmp_path / "one.hl7").write_bytes(text.encode() + rest)
    site = tmp_path / "site"
    result = _ran(tmp_path / "one.hl7", "--out", site, "--force", "--feed", "one")
    assert result.exit_code == 0, result.exception
    validate(read(site / "channels" / "one.yaml"), Channel)
    for name in ("adt", "oru"):
        if (site / "mappings" / f"{name}.yaml").exists():
            load([site / "mappings", shipped("mappings")], name)
