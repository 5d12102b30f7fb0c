"""`mappings infer` of several senders: one channel or several, and the interview about what drafts leave open."""

import contextlib
import json
import os
import pty
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from typer.testing import CliRunner, Result

from engine.config.channel import Channel
from engine.config.channels import load_channels
from engine.config.settings import shipped
from engine.errors import UsageError
from engine.mapping.authoring.feed import PartSurvey
from engine.mapping.compile import load
from engine.pipeline.configuration import Files, examine
from tests.ops.command import group

APP: Final = group("mappings")
RUNNER: Final = CliRunner()
REG: Final = (
    "MSH|^~\\&|REG|RIVERBEND|||20260302080300||ADT^A01^ADT_A01|R1|P|2.5.1",
    "EVN||20260302080300",
    "PID|1||100003^^^RVB^MR~999-12-3456^^^SSA^SS||Quillon^Serafina||19630930|F||W||||||XX|ZOR|A1^^^RVB^AN||||LAT",
    "PD1||||4712^Tansy^A^^^^^^HR",
    "NK1|1|Quillon^Bo|AUNTIE",
    "PV1|1|I|3W^301^A|9||||||ORTH|||||||4712^Tansy^A^^^^^^HR^^^^PRN||V0001^^^RVB^VN" + "|" * 17 + "99",
    "ROL|1|AD|PP|5511^Marram^Ivo^^^^^^HR",
    "ZPI|1|Y|20260301|GOLD^Member since birth^L|RED^12^Y~BLUE&NAVY^13.5^N",
)
ED: Final = (
    "MSH|^~\\&|ED|RIVERBEND|||20260302090300||ADT^A40^ADT_A39|E1|P|2.5.1",
    "EVN||20260302090300",
    "PID|1||100005^^^RVB^MR||Marl^Otto||19550101|M||2106-3^White^CDCREC||||||MARRIED",
    "MRG|100009^^^RVB^MR",
)
LAKESIDE: Final = (
    "MSH|^~\\&|ADT|LAKESIDE|||20260302090300-0600||ADT^A04^ADT_A01|L1|P|2.5.1",
    "EVN||20260302090300-0600",
    "PID|1||77^^^LKS&1.2.3&ISO^MR||Voss^Ida||19550101|F||||||||S",
    "PV1|1|O" + "|" * 17 + "L77^^^LKS&1.2.4&ISO^VN",
)
LAB: Final = (
    "MSH|^~\\&|LAB|RIVERBEND|||20260302090300||ORU^R01^ORU_R01|O1|P|2.5.1",
    "PID|1||100005^^^RVB^MR||Marl^Otto||19550101|M",
    "OBR|1|o1^CDIS|f1^LAB|GLU^Glucose^L|||20260302090300",
)
PERSONAL: Final = ("quillon", "serafina", "100003", "marl", "19630930", "member since birth", "999-12", "navy", "v0001")


def _samples(folder: Path, *messages: Sequence[str]) -> Path:
    for number, segments in enumerate(messages, 1):
        (folder / "samples").mkdir(exist_ok=True)
        (folder / "samples" / f"{number}.hl7").write_text("\n".join(segments) + "\n")
    return folder / "samples"


@pytest.fixture
def samples(tmp_path: Path) -> Path:
    """Two senders of one hospital, one of another, and a laboratory."""
    return _samples(tmp_path, REG, ED, LAKESIDE, LAB)


def _ran(*words: str | Path, typed: Sequence[str] = ()) -> Result:
    return RUNNER.invoke(APP, ["infer", *map(str, words)], input="".join(f"{line}\n" for line in typed))


def _report(*words: str | Path) -> dict[str, Any]:
    result = _ran(*words, "--json")
    assert result.exit_code == 0, result.output
    return dict(json.loads(result.stdout))


def _channels(site: Path) -> dict[str, Channel]:
    return {one.channel: one for one in load_channels(site / "channels")}


def test_senders_share_a_channel_where_they_go_together(samples: Path, tmp_path: Path) -> None:
    """Each sender has its findings; the proposal has its reasons, and the drafts ports of their own."""
    found = _report(samples, "--out", tmp_path / "site")
    assert {one["sender"]: (one["mapping"], one["authorities"]) for one in found["by_sender"]} == {
        "ED|RIVERBEND": ("adt", ["RVB"]),
        "REG|RIVERBEND": ("adt", ["HR", "RVB", "SSA"]),
        "ADT|LAKESIDE": ("adt", ["LKS"]),
        "LAB|RIVERBEND": ("oru", ["CDIS", "LAB", "RVB"]),
    }
    assert {tuple(one["senders"]): one["reason"] for one in found["channels"]} == {
        ("ADT|LAKESIDE",): "most messages",
        ("ED|RIVERBEND", "REG|RIVERBEND"): "authorities RVB, not LKS; same authorities, character set, zone, mapping",
        ("LAB|RIVERBEND",): "mapping oru, not adt; authorities RVB, not LKS",
    }
    channels = _channels(tmp_path / "site")
    assert {name: (one.mapping, set(one.sources)) for name, one in channels.items()} == {
        "lakeside-adt": ("adt", {"ADT|LAKESIDE"}),
        "riverbend-ed": ("adt", {"ED|RIVERBEND", "REG|RIVERBEND"}),
        "riverbend-lab": ("oru", {"LAB|RIVERBEND"}),
    }
    ports = sorted(one.listen.mllp.port for one in channels.values() if one.listen.mllp)
    assert ports == [2575, 2576, 2577]
    assert channels["lakeside-adt"].authorities == {"LKS": "urn:oid:1.2.3", "LKS^VN": "urn:oid:1.2.4"}


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        pytest.param(
            {"RVB": "RVB&1.2.9&ISO"}, "same authorities, character set, zone, mapping", id="one of them without an ID"
        ),
        pytest.param({"RVB": "OTH"}, "authorities OTH, not RVB, SSA", id="another authority"),
        pytest.param({"Otto": "M\xfcller", "090300": "090300-0600"}, "same authorities, ", id="what only one has"),
    ],
)
def test_what_keeps_senders_apart(tmp_path: Path, changed: dict[str, str], reason: str) -> None:
    """What differs is named; what only one of them says is no difference."""
    text = "\n".join(ED)
    for old, new in changed.items():
        text = text.replace(old, new)
    found = _report(_samples(tmp_path, REG, REG, text.splitlines()))
    assert found["channels"][-1]["reason"].startswith(reason)


def test_character_sets_zones_and_ids_keep_senders_apart(tmp_path: Path) -> None:
    """Each is a channel's to say."""
    samples = _samples(tmp_path, REG, REG, ED)
    raws = {"1.hl7": "\xe9", "2.hl7": "\xe9", "3.hl7": "\x93"}
    for name, character in raws.items():
        text = (samples / name).read_text().replace("PID|1", f"NTE|1||{character}\nPID|1")
        zone, universal = ("-0500", "1.2.3") if name != "3.hl7" else ("-0600", "1.2.4")
        text = text.replace("00300||ADT", f"00300{zone}||ADT").replace("300||ADT", f"300{zone}||ADT")
        (samples / name).write_bytes(text.replace("^^^RVB^MR", f"^^^RVB&{universal}&ISO^MR").encode("latin-1"))
    found = _report(samples)
    assert [one["reason"] for one in found["channels"]] == [
        "most messages",
        "another universal ID of RVB; character set cp1252, not 8859/1; times in -0600, not -0500",
    ]


def test_one_channel_or_each_as_asked_for(samples: Path, tmp_path: Path) -> None:
    """`--channels` decides; what speaks against one is told, ports stay apart from those of channels that are there."""
    found = _report(samples, "--out", tmp_path / "one", "--channels", "one", "--feed", "all")
    assert "but ED|RIVERBEND: authorities RVB, not LKS; " in found["channels"][0]["reason"]
    assert len(_channels(tmp_path / "one")["all"].sources) == 4
    (tmp_path / "each").mkdir()
    (tmp_path / "one" / "channels").rename(tmp_path / "each" / "channels")
    assert _ran(samples, "--out", tmp_path / "each", "--channels", "each", "--no-ask").exit_code == 0
    channels = _channels(tmp_path / "each")
    assert len(channels) == 5
    assert sorted(one.listen.mllp.port for one in channels.values() if one.listen.mllp) == [
        2575,
        2576,
        2577,
        2578,
        2579,
    ]


def test_authorities_of_visits_accounts_and_providers(samples: Path, tmp_path: Path) -> None:
    """Each with its fields; a type that has a system beside its authority's gets a line of its own to decide."""
    site = tmp_path / "site"
    assert _ran(samples, "--out", site).exit_code == 0
    text = (site / "channels" / "riverbend-ed.yaml").read_text()
    number = "the URI of these numbers"
    for line in (
        f"  RVB: urn:decide:authority:RVB   # decide: {number}; MRG-1 MR (1); PID-18 AN (1); PID-3 MR (2); PV1-19",
        f"  HR: urn:decide:authority:HR   # decide: {number}; PD1-4 without a type (1); PV1-17 PRN (1); ROL-4 without",
        '  # "RVB^VN": urn:decide:authority:RVB^VN   # decide: the URI of these VN numbers, if they have one; else its',
        '  # "RVB^AN": urn:decide:authority:RVB^AN   # decide: the URI of these AN numbers',
        '  # "HR^PRN": urn:decide:authority:HR^PRN   # decide: the URI of these PRN numbers',
    ):
        assert line in text
    assert "SSA" not in text


def test_local_codes_of_every_field_that_has_a_table(samples: Path, tmp_path: Path) -> None:
    """Also where a look-up leaves no trace, and of what is not sent; a code that means a row's is proposed as that."""
    found = _report(samples, "--out", tmp_path / "site")
    codes = {(one["field"], one["code"], one["table"]) for one in found["unmapped"]}
    assert codes == {
        ("PID-10", "W", "race"),
        ("PID-16", "MARRIED", "marital-status"),
        ("PID-16", "XX", "marital-status"),
        ("PID-17", "ZOR", "religion"),
        ("PID-22", "LAT", "ethnicity"),
        ("PV1-4", "9", "admission-type"),
        ("PV1-10", "ORTH", "hospital-service"),
        ("PV1-36", "99", "discharge-disposition"),
        ("NK1-3", "AUNTIE", "relationship"),
    }
    tables = tmp_path / "site" / "mappings" / "tables"
    assert "#   MARRIED: {code: M, display: Married}   # decide:" in (tables / "marital-status.yaml").read_text()
    assert {one.stem for one in tables.glob("*.yaml")} == {table for _, _, table in codes}


def test_z_fields_by_level(samples: Path, tmp_path: Path) -> None:
    """Components and subcomponents with the kinds of their values; extensions are drafted for each of them."""
    found = _report(samples, "--out", tmp_path / "site")
    parts = {one["path"]: (one["kind"], one["distinct"], one["times"]) for one in found["z_parts"]}
    assert parts["ZPI-2.1"] == ("Y or N", "1", 1)
    assert parts["ZPI-5.1"] == ("one word", "1", 1)
    assert parts["ZPI-5.1.2"] == ("one word", "1", 1)
    assert parts["ZPI-5.2"] == ("digits", "2", 2)
    assert {one["path"]: one["repeated"] for one in found["z_segments"]}["ZPI-5"] == 1
    text = (tmp_path / "site" / "mappings" / "resources" / "patient.yaml").read_text()
    for lines in (
        "urn:decide:extension:ZPI-2   # decide: the URL of its extension; Y or N (1)",
        "#       valueDate: ZPI-3 | date",
        "#       valueCodeableConcept: ZPI-4 | coded",
        "#       each: ZPI-5\n#       valueBoolean: CWE.3 | boolean(yes-no)",
        "#       valueString: ZPI-5.1.2",
    ):
        assert lines in text
    uncommented = text.replace("\n# ", "\n").replace("\n#  ", "\n  ")
    (tmp_path / "site" / "mappings" / "resources" / "patient.yaml").write_text(uncommented)
    load([tmp_path / "site" / "mappings", shipped("mappings")], "adt")


def test_codes_recur() -> None:
    """Words that recur are like codes; the number of distinct ones is counted up to a bound."""
    part = PartSurvey()
    for number in range(120):
        part.add(f"W{number % 3}")
    assert (part.kind, part.distinct) == ("like a code", "3")
    for number in range(120):
        part.add(f"V{number}")
    assert (part.kind, part.distinct) == ("one word", "over 50")


# Answers to all questions, in their order; a wrong one is asked again.
LAKESIDE_ANSWERS: Final = ("?", "", "live", "add one", "", "https://fhir.example/fhir/R4", "")
ED_ANSWERS: Final = (
    *("", "live", "", "mrn", "https://mrn.rvb.example", "urn:oid:1.2.3", "", "leave out", "https://v.rvb.example"),
    *("America/Chicagoo", "America/Chicago", "false"),
)
LAB_ANSWERS: Final = ("", "live", "", "", "skip", "America/Chicago")
MAPPING_ANSWERS: Final = (
    *("perhaps", "take", "https://rvb.example/interpreter", "leave out", "", "no url", "https://rvb.example/colour"),
    *(
        "",
        "",
        "",
        "",
        "",
        "?",
        "E",
        "",
        "HL=Hispanic",
        "Nope",
        "skip",
        "",
        "S",
        "2106-3",
        "UNC",
        "AUNT=aunt",
        "leave out",
    ),
)


def test_the_interview_decides_everything(samples: Path, tmp_path: Path) -> None:
    """Answers are checked and written at once, one address is asked once, and what is skipped is asked next time."""
    site, files = tmp_path / "site", Files(tmp_path / "site" / "channels", tmp_path / "site" / "mappings", tmp_path)
    typed = (*LAKESIDE_ANSWERS, *ED_ANSWERS, *LAB_ANSWERS, *MAPPING_ANSWERS)
    result = _ran(samples, "--out", site, "--ask", typed=typed)
    assert result.exit_code == 0, result.output
    assert "2 decisions are left: run this again with --ask" in result.stdout
    for told in (
        "Where senders connect; the first from 2575 on",
        "press Enter for the lines below",
        "did you mean America/Chicago?",
        "base_url: https://fhir.example/fhir/R4, as before",
        "no code of the table hospital-service",
        "'no url' is no absolute URI",
        "ethnicity LAT [leave out]:",
        "answer take, leave out or skip",
    ):
        assert told in result.stderr
    left = examine(files, machine=False)
    assert left.configuration is None
    assert [(Path(one.file).name, one.found[:20]) for one in left.problems] == [
        ("riverbend-lab.yaml", "undecided: the URI o"),
        ("hospital-service.yaml", "undecided: what it m"),
    ]
    again = _ran(samples, "--out", site, "--ask", typed=("", "CAR"))
    assert again.exit_code == 0, again.output
    assert "decisions are left" not in again.stdout
    configuration = examine(files, machine=False).usable()
    ed = configuration.channels["riverbend-ed"]
    assert ed.authorities == {
        "RVB": "https://mrn.rvb.example",
        "HR": "urn:oid:1.2.3",
        "RVB^VN": "https://v.rvb.example",
    }
    assert (ed.mode, ed.timezone, ed.allow_merge) == ("live", "America/Chicago", False)
    assert {one.base_url for channel in configuration.channels.values() for one in channel.servers} == {
        "https://fhir.example/fhir/R4"
    }
    source = load([site / "mappings", shipped("mappings")], "adt")
    tables = source.documents.tables
    rows = {name: tables[name].value["codes"] for name in ("marital-status", "ethnicity", "race", "hospital-service")}
    assert rows["marital-status"]["XX"] == {"code": "S", "display": "Never Married"}
    assert rows["marital-status"]["MARRIED"] == {"code": "M", "display": "Married"}
    assert rows["ethnicity"]["LAT"] == {"code": "HL", "display": "Hispanic"}
    assert rows["race"]["W"] == {"code": "2106-3", "display": "White"}
    assert "ORTH" in rows["hospital-service"]
    assert source.documents.events.value["resources"] == ["Patient", "Encounter", "RelatedPerson", "PractitionerRole"]
    urls = [one.get("url") for one in source.documents.resources["Patient"].value["elements"]["extension"]]
    assert urls[-2:] == ["https://rvb.example/interpreter", "https://rvb.example/colour"]
    assert [value for value in PERSONAL if value in (result.output + again.output).lower()] == []


def test_what_was_answered_stays_where_nobody_answers_any_more(samples: Path, tmp_path: Path) -> None:
    """The end of input ends the interview; the drafts hold what was said before."""
    site = tmp_path / "site"
    assert _ran(samples, "--out", site, "--ask", typed=("2600", "live")).exit_code == 1
    lakeside = _channels(site)["lakeside-adt"]
    assert (lakeside.listen.mllp and lakeside.listen.mllp.port, lakeside.mode) == (2600, "live")


def test_asking_needs_drafts(samples: Path) -> None:
    """Answers are written into files, and never into JSON."""
    for words in (("--ask",), ("--ask", "--json", "--out", "x")):
        error = _ran(samples, *words).exception
        assert isinstance(error, UsageError)
        assert "--ask goes with --out" in str(error)


def test_a_terminal_is_asked(tmp_path: Path) -> None:
    """Without an option, as by `channels init`; Ctrl-D ends it."""
    samples = _samples(tmp_path, LAKESIDE)
    primary, secondary = pty.openpty()
    os.write(primary, b"2601\n\x04")
    command = [sys.executable, "-m", "engine", "mappings", "infer", str(samples), "--out", "site"]
    done = subprocess.run(
        command, stdin=secondary, capture_output=True, text=True, cwd=tmp_path, timeout=120, check=False
    )
    for end in (primary, secondary):
        with contextlib.suppress(OSError):
            os.close(end)
    assert "port [2575]:" in done.stderr
    assert _channels(tmp_path / "site")["lakeside-adt"].listen.mllp is not None
    assert "port: 2601   # where its senders connect" in (tmp_path / "site/channels/lakeside-adt.yaml").read_text()


def test_marks_that_a_person_wrote_are_asked_too(tmp_path: Path) -> None:
    """However they are spaced; a remark is settled by Enter, and all else in the file stays as it is."""
    site = tmp_path / "site"
    assert _ran(_samples(tmp_path, LAKESIDE), "--out", site).exit_code == 0
    file = site / "channels" / "lakeside-adt.yaml"
    lines = [line.partition("   # decide:")[0] for line in file.read_text().splitlines()]
    text = "\n".join(lines).replace("destination.invalid", "fhir.example")
    file.write_text(f'{text}\ncontact: "a # decide: b"   #  decide:   who\n#decide: x\nversion: "2.3"   # decide: v\n')
    for written in (site / "mappings").rglob("*.yaml"):
        written.unlink()
    result = _ran(tmp_path / "samples", "--out", site, "--ask", typed=("", "", "2.4"))
    assert result.exit_code == 0, result.output
    assert file.read_text() == f'{text}\ncontact: "a # decide: b"   # who\n# x\nversion: "2.4"   # v\n'
