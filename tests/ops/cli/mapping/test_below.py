"""Folders of messages, and reports as pages, of `mappings coverage`, `diff` and `explain`."""

import json
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from engine.errors import UsageError
from engine.ops.cli.mapping.mappings import messages_of
from engine.ops.cli.mapping.page import ReportSection, page
from engine.ops.cli.mapping.traffic import messages_below
from tests.ops.command import group

app = group("mappings")
RUNNER = CliRunner()
MESSAGE = (
    "MSH|^~\\&|H|R|||20250701093000||ADT^A01|{}|P|2.5.1\r"
    "PID|1||RB-1^^^RVB^MR||QUINTERO^MARISOL||19840229|F||||||||ZZ\r"
    "PV1|1|I|3W^301||||||||||||||||V1\rMARISOL QUINTERO|a note\r"
)


def _ran(*words: str | Path) -> Result:
    return RUNNER.invoke(app, [str(word) for word in words])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three messages in two files, one of them further down, beside files that hold none."""
    (tmp_path / "day" / "one").mkdir(parents=True)
    (tmp_path / "day" / ".git").mkdir()
    (tmp_path / "day" / "a.hl7").write_text(MESSAGE.format("M1") + "\r\r" + MESSAGE.format("M2"))
    (tmp_path / "day" / "one" / "b.txt").write_text("\x0b" + MESSAGE.format("M3") + "\x1c\r")
    (tmp_path / "day" / "one" / "wide").write_bytes(MESSAGE.format("M4").encode("utf-16"))
    (tmp_path / "day" / "notes.md").write_text("nothing of HL7, though it says MSH|")
    (tmp_path / "day" / ".git" / "c.hl7").write_text(MESSAGE.format("M5"))
    return tmp_path / "day"


def test_all_files_below_a_folder_that_hold_messages(folder: Path) -> None:
    """Whatever they are called; what holds no message, and what is hidden, is passed over."""
    names = [message.name.removeprefix(f"{folder}/") for message in messages_below([folder])]
    assert names == ["a.hl7 #1", "a.hl7 #2", "one/b.txt", "one/wide"]
    found = json.loads(_ran("coverage", folder, folder / "a.hl7", "--json").stdout)
    assert (found["messages"], found["unreadable"]) == (6, 0)


def test_a_folder_without_messages_is_named(tmp_path: Path) -> None:
    """So is a path that is not there."""
    (tmp_path / "notes.md").write_text("nothing")
    with pytest.raises(UsageError, match=r"no file below .* holds an HL7 message"):
        list(messages_below([tmp_path]))
    with pytest.raises(UsageError, match="nowhere cannot be read"):
        list(messages_below([tmp_path / "nowhere"]))


def test_a_batch_ends_outside_of_its_last_message() -> None:
    """FHS, BHS, BTS and FTS are segments of no message."""
    batch = b"FHS|^~\\&\rBHS|^~\\&\rMSH|a\rPID|1\rBTS|1\rBHS|^~\\&\rMSH|b\rPID|2\r\nBTS|1\r\nFTS|1\r\n"
    assert list(messages_of(batch)) == [b"MSH|a\rPID|1", b"MSH|b\rPID|2"]
    assert list(messages_of(b"FTS|1")) == [b"FTS|1"]


def test_diff_of_a_folder(folder: Path, site: Path) -> None:
    """All messages below it are compared."""
    assert "       4  Patient.birthDate\n" in _ran("diff", "shipped", site, folder).stdout


class Page(HTMLParser):
    """What a page holds: its tags, the places it leads to and those that it has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.links: list[str] = []
        self.ids: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a tag."""
        self.tags.add(tag)
        self.links += [value or "" for name, value in attrs if name in {"href", "src"}]
        self.ids += [value or "" for name, value in attrs if name == "id"]


Report = Callable[[Path, Path, Path], list[str | Path]]


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(lambda folder, _site, file: ["coverage", folder, "--html", file, "--unused"], id="coverage"),
        pytest.param(lambda folder, site, file: ["diff", "shipped", site, folder, "--html", file], id="diff"),
    ],
)
def test_a_page_stands_alone_and_shows_no_values(folder: Path, site: Path, tmp_path: Path, words: Report) -> None:
    """It loads and runs nothing, leads to its own sections, and values of patients are there only with --values."""
    file = tmp_path / "report.html"
    result = _ran(*words(folder, site, file))
    assert result.exit_code == 0, result.output
    assert f"wrote {file}" in result.stderr
    text = file.read_text("utf-8")
    made = Page(text)
    assert made.tags.isdisjoint({"script", "link", "img", "iframe"})
    assert made.links
    assert made.links == [f"#{one}" for one in made.ids]
    assert "prefers-color-scheme: dark" in text
    assert all(value not in text for value in ("1984-02-29", "QUINTERO", "MARISOL", "RB-1", "<td>ZZ", str(folder)))
    _ran(*words(folder, site, file), "--values")
    assert any(value in file.read_text("utf-8") for value in ("1984-02-29", "<td>ZZ"))


def test_what_stands_in_a_page_is_escaped() -> None:
    """Whatever a message holds is text, also what is no character to be shown."""
    rows = [{"code": "<script>alert(1)</script>", "of": ["a\x00", "\u202eb"]}]
    text = page("<b>", ["&"], [ReportSection("codes", "Codes", {"code": "Code", "of": "Of"})], {"codes": rows})
    assert "<script" not in text
    assert "<td>&lt;script&gt;alert(1)&lt;/script&gt;</td><td>a\ufffd, \ufffdb</td>" in text
    assert "<h1>&lt;b&gt;</h1>" in text


def test_a_page_that_cannot_be_written(folder: Path, tmp_path: Path) -> None:
    """The file is named, and what to do."""
    error = _ran("coverage", folder, "--html", tmp_path / "no" / "such.html").exception
    assert isinstance(error, UsageError)
    assert "name another file" in str(error)


def test_explain_by_segment_and_by_rule_file(folder: Path) -> None:
    """Filters choose what is shown, together and with an element; a mistake in one is told."""
    one = folder / "one" / "b.txt"
    text = _ran("explain", one, "--segment", "PV1").stdout
    assert "Encounter.class" in text
    assert "Patient.gender" not in text
    text = _ran("explain", one, "--rule-file", "resources/patient.yaml").stdout
    assert "Patient.gender" in text
    assert "Encounter.class" not in text
    both = json.loads(_ran("explain", one, "--rule-file", "encounter.yaml", "--segment", "PV1", "--json").stdout)
    assert {(Path(each["file"]).name, each["source"][:3]) for each in both[0]["elements"]} == {
        ("encounter.yaml", "PV1")
    }
    text = _ran("explain", one, "--element", "Patient", "--segment", "PV1").stdout
    assert text.splitlines()[1:] == ["  nothing was made of what is chosen"]
    for wrong, hint in (("--segment=pv1", "such as PV1"), ("--rule-file=encountr.yaml", "'encounter.yaml'")):
        error = _ran("explain", one, wrong).exception
        assert isinstance(error, UsageError)
        assert hint in str(error)
