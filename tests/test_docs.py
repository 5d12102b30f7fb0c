"""The documents say what is so: every command, setting, metric, file and link in them, and the blocks they show."""

import ast
import re
import shlex
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import typer.main
from pydantic import BaseModel
from typer.testing import CliRunner

from engine import telemetry
from engine.__main__ import app
from engine.config.reference import setting_rows
from engine.fault import POINTS
from engine.ops.views.reasons import REASONS
from tests.interchange.nursery import ran
from tests.settings import TABLES, with_table

pytestmark = pytest.mark.text

ROOT: Final = Path(__file__).parent.parent
HELP: Final = ROOT / "engine/ops/docs"
HOUSE: Final = ROOT / "engine/README.md"
SERVICE: Final = ROOT / "engine/interchange/README.md"
FIRST: Final = ROOT / "README.md"
DOCUMENTS: Final = (
    FIRST,
    *(ROOT / f"{folder}/README.md" for folder in ("channels", "samples", "tests", "tests/benchmarks")),
    *sorted((ROOT / "mappings").glob("*.md")),
    HOUSE,
    SERVICE,
    *(SERVICE.with_name(f"{page}.md") for page in ("clients", "orders", "webhooks")),
    *sorted(SERVICE.parent.glob("docs/*.md")),
    *sorted(HELP.glob("*.md")),
)
TEXTS: Final = {document: document.read_text("utf-8") for document in DOCUMENTS}
EVERYTHING: Final = "\n".join(TEXTS.values())
NAMES: Final = [document.relative_to(ROOT).as_posix() for document in DOCUMENTS]
FENCED: Final = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
OFFLINE: Final = (
    *("mappings try samples", "mappings test", "mappings explain samples", "mappings coverage samples"),
    *("messages check samples", "deploy", "reasons", "help"),
)
MISTAKE: Final = re.compile(
    r"with a mistake, `([^`]+)`:\n\n```yaml\n(.*?)```.*?```sh\nadt-engine (.*?)\n```\n```text\n(.*?)```", re.DOTALL
)
# The name of a file that a guide has its reader write.
WRITTEN: Final = re.compile(r"`[^`]+`:\n\n")
LINK: Final = re.compile(r"\]\(([^)\s]+)\)")
# What stands in a shown command for something else, or ends it.
ENDS: Final = re.compile(r"\s(?:[|&]+|\d?>>?|#|;|<)(?:\s.*|$)")


def _between(document: Path, mark: str) -> str:
    return TEXTS[document].split(f"<!-- {mark} -->\n", 1)[1].split(f"<!-- /{mark} -->", 1)[0].strip()


def _root() -> Any:
    return typer.main.get_command(app)


def _commands() -> list[str]:
    root = _root()
    found = []
    with root.make_context("adt-engine", ["--help"], resilient_parsing=True) as context:
        for name in root.list_commands(context):
            command = root.get_command(context, name)
            children = command.list_commands(context) if hasattr(command, "list_commands") else []
            found += [name, *(f"{name} {child}" for child in children)]
    return found


def _shown(text: str) -> Iterator[str]:
    """Yield the commands of adt-engine that a document shows, one a line."""
    for block in re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            found = re.search(r"(?:^|&& |until )adt-engine (.*)", line)
            if found:
                yield ENDS.sub("", f"{found[1]} ").strip()


def _anchors(document: Path) -> set[str]:
    """Return the places of a document that a link may lead to."""
    prose = FENCED.sub("", document.read_text("utf-8"))
    headings = re.findall(r"^#+ (.+)$", prose, re.MULTILINE)
    places = {re.sub(r"[^a-z0-9 _-]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return places | (set(REASONS) if document.name == "reasons.md" else set())


def _links(document: Path) -> Iterator[tuple[Path, str]]:
    """Yield where the links of a document lead: a file, and a place in it."""
    for link in LINK.findall(FENCED.sub("", TEXTS[document])):
        if "://" not in link:
            path, _, place = link.partition("#")
            yield ((document.parent / path).resolve() if path else document), place


@pytest.mark.parametrize(("document", "mark", "model"), TABLES)
def test_the_table_of_settings_is_the_one_of_the_models(document: Path, mark: str, model: type[BaseModel]) -> None:
    """Key, default, unit and meaning are generated; after a change, run `python -m tests.settings`."""
    assert TEXTS[document].count(f"<!-- {mark} -->") == 1
    assert TEXTS[document] == with_table(TEXTS[document], mark, model)
    assert all(row.meaning for row in setting_rows(model))


@pytest.mark.parametrize("command", _commands())
def test_every_command_is_in_a_document(command: str) -> None:
    """Whoever reads the documents knows all commands."""
    assert f"adt-engine {command}" in EVERYTHING


@pytest.mark.parametrize("command", _commands())
def test_every_command_has_help_with_an_example(command: str) -> None:
    """`--help` works for each command, and the ones that do something show an example."""
    done = CliRunner().invoke(app, [*command.split(), "--help"], prog_name="adt-engine")
    assert done.exit_code == 0
    if "Commands" not in done.stdout or command == "interchange":
        assert "Example" in done.stdout


@pytest.mark.parametrize("document", DOCUMENTS, ids=NAMES)
def test_every_shown_command_and_option_is_there(document: Path) -> None:
    """A command of a block of `sh` has the name and the options that it is shown with."""
    wrong = []
    for line in _shown(TEXTS[document]):
        words = shlex.split(line)
        command = _root()
        with command.make_context("adt-engine", ["--help"], resilient_parsing=True) as context:
            while words and hasattr(command, "get_command") and not words[0].startswith("-"):
                name = words.pop(0)
                command = command.get_command(context, name)
                if command is None:
                    wrong.append((line, name))
                    break
        if command is not None:
            known = {option for param in command.params for option in param.opts} | {"--help"}
            wrong += [(line, word) for word in words if word.startswith("--") and word.partition("=")[0] not in known]
    assert wrong == []


def test_every_metric_is_in_the_help() -> None:
    """Each metric's name stands on its page."""
    names = {family.name for family in telemetry.REGISTRY.collect()}
    assert names
    assert [name for name in names if name not in TEXTS[HELP / "metrics.md"]] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=NAMES)
def test_every_path_is_there(document: Path) -> None:
    """Folders and files that a document names in backquotes exist."""
    prose = WRITTEN.sub("", FENCED.sub("", TEXTS[document]))
    paths = re.findall(r"`((?:engine|tests|mappings|channels|samples)/[\w./-]*)`", prose)
    assert [path for path in paths if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=NAMES)
def test_every_link_leads_somewhere(document: Path) -> None:
    """Files that are linked to exist, and have the heading that is named."""
    wrong = [f"{file}#{place}" for file, place in _links(document) if not file.exists()]
    wrong += [f"{file}#{place}" for file, place in _links(document) if place and place not in _anchors(file)]
    assert wrong == []


def test_every_document_is_led_to() -> None:
    """From the first page each document is a link or two away."""
    reached, ahead = {FIRST}, [FIRST]
    while ahead:
        found = {file for file, _ in _links(ahead.pop()) if file in TEXTS} - reached
        reached |= found
        ahead += found
    assert set(DOCUMENTS) - reached == {HELP / "README.md"}


def test_the_first_page_is_short() -> None:
    """A stranger reads it in ten minutes; the rest stands where its reader is."""
    assert TEXTS[FIRST].count("\n") <= 210


def test_the_screenshots_are_small_and_shown() -> None:
    """The documents show what `python -m tests.screenshots` takes, each of 1440 x 900 and under 150 kB."""
    pictures = {file for document in DOCUMENTS for file, _ in _links(document) if file.suffix == ".png"}
    assert pictures == set((ROOT / "engine").rglob("*.png"))
    assert len(pictures) > 2
    for picture in pictures:
        content = picture.read_bytes()
        assert struct.unpack(">II", content[16:24]) == (1440, 900)
        assert len(content) < 150_000


def test_the_shown_commands_work() -> None:
    """The offline commands of the documents run as they stand and end well."""
    offline = {line for text in TEXTS.values() for line in _shown(text)}
    offline = {line for line in offline if line.startswith(OFFLINE) and "my-" not in line}
    assert len(offline) > 2
    for line in sorted(offline):
        done = ran(*shlex.split(line), folder=ROOT)
        assert done.returncode == 0, (line, done.stderr)


def test_the_shown_mistake_is_told_as_shown(tmp_path: Path) -> None:
    """The first page's file with a mistake, checked: what is printed is what is shown."""
    file, text, command, shown = MISTAKE.findall(TEXTS[FIRST])[0]
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).write_text(text)
    done = ran(*shlex.split(command), folder=tmp_path)
    assert done.returncode == 1
    assert done.stderr == shown


def test_the_test_command_of_ci_is_the_readmes() -> None:
    """CI runs what a reader would run."""
    command = "-m pytest"
    assert command in TEXTS[FIRST]
    assert command in (ROOT / ".ci" / "run").read_text()


def test_every_log_line_of_the_service_is_on_its_page() -> None:
    """Whoever is on call finds each event of the service's log, with what to do."""
    service = ROOT / "engine/interchange"
    sources = [file.read_text() for file in (*service.glob("app/*.py"), *service.glob("web/http/*.py"))]
    events = {name for text in sources for name in re.findall(r'logger\(\)\.\w+\(\s*"([^"]+)"', text)}
    assert len(events) > 8
    assert [name for name in events if f"`{name}`" not in TEXTS[SERVICE.parent / "docs/fhir-service.md"]] == []


def test_every_room_of_the_house_is_on_its_plan() -> None:
    """The table of floors names each folder and file right below `engine/`."""
    plan = TEXTS[HOUSE].partition("| Floor |")[2].partition("\n\n")[0]
    named = set(re.findall(r"`engine/([\w.]+)/?`", plan))
    rooms = {one.name for one in (ROOT / "engine").iterdir() if one.suffix in {"", ".py"}}
    assert named == rooms - {"__init__.py", "__pycache__", "shipped"}


def test_the_walks_lead_to_what_is_there() -> None:
    """Each place of the walks is a file with the function, class or value that is named beside it."""
    walks = _between(HOUSE, "walks")
    assert walks.count("\n**") + 1 == 12
    steps = re.findall(r"^\d\. `([^`]+)`(?:, ((?:`[^`]+`(?: and )?)+))?", walks, re.MULTILINE)
    assert len(steps) > 12
    for path, names in steps:
        file = ROOT / path
        assert file.exists(), path
        for name in re.findall(r"`([^`]+)`", names):
            assert name in _defined(file), (path, name)


def _defined(file: Path) -> set[str]:
    """Return what a module defines at its top, and the methods of its classes as `Class.method`."""
    found = set()
    for node in ast.parse(file.read_text()).body:
        name = getattr(node, "name", "")
        targets = [getattr(node, "target", None), *getattr(node, "targets", [])]
        found |= {name} | {target.id for target in targets if isinstance(target, ast.Name)}
        found |= {f"{name}.{one.name}" for one in getattr(node, "body", []) if hasattr(one, "name")}
    return found


def test_every_fault_point_is_in_the_table() -> None:
    """Whoever arms a fault finds what it stands before; the table names none that is nowhere."""
    named = re.findall(r"^\| (F\d\d) \|", _between(HOUSE, "fault points"), re.MULTILINE)
    assert named == list(POINTS)
