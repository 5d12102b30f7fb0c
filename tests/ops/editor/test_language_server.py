"""The language server as an editor meets it: a process, spoken to over its standard input and output."""

import asyncio
import sys
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types
from pygls.lsp.client import LanguageClient
from pygls.workspace import Workspace

from engine.config.settings import shipped
from engine.errors import UsageError
from engine.mapping.editor.project import Diagnostic, MappingProject, diagnostics
from engine.ops.cli.mapping import lsp as command
from engine.ops.editor import language_server
from engine.ops.editor.language_server import NAME, Checker, OpenFiles, make_server

TEXT = "resource: Patient\nextends: shipped/patient\nelements:\n  birthDate: PID-7 | date\n"
MESSAGE = "MSH|^~\\&|A|RVB|||20250701||ADT^A28^ADT_A05|1|P|2.5.1\rPID|1||1^^^RVB^MR||Q^M||19840229|F\r"


@dataclass
class Editor:
    """An editor with one file of a site open; `told` has the diagnostics that it got, in their order."""

    client: LanguageClient
    file: Path
    told: "asyncio.Queue[types.PublishDiagnosticsParams]" = field(default_factory=asyncio.Queue)
    version: int = 1

    @property
    def uri(self) -> str:
        """The URI of the open file."""
        return self.file.as_uri()

    def at(self, line: int, character: int) -> dict[str, Any]:
        """Return what a request asks about: a position, from 0."""
        return {
            "text_document": types.TextDocumentIdentifier(self.uri),
            "position": types.Position(line, character),
        }

    async def type(self, text: str) -> None:
        """Change the text of the open file; the file on the disk stays."""
        self.version += 1
        document = types.VersionedTextDocumentIdentifier(self.version, self.uri)
        change = types.TextDocumentContentChangeWholeDocument(text)
        self.client.text_document_did_change(types.DidChangeTextDocumentParams(document, [change]))

    async def diagnostics(self) -> list[types.Diagnostic]:
        """Return the next diagnostics of the open file."""
        while (params := await self.told.get()).uri != self.uri:
            pass
        return list(params.diagnostics)


@pytest.fixture
async def editor(tmp_path: Path) -> AsyncIterator[Editor]:
    """An editor that has started `mappings lsp`, with a file of a site and an example message."""
    file = tmp_path / "site" / "resources" / "patient.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(TEXT, "utf-8")
    (tmp_path / "mine.hl7").write_text(MESSAGE, "utf-8")
    client = LanguageClient("test", "1")
    found = Editor(client, file)

    @client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
    def published(params: types.PublishDiagnosticsParams) -> None:
        found.told.put_nowait(params)

    await client.start_io(sys.executable, "-m", "engine", "mappings", "lsp")
    options = {"exampleMessage": str(tmp_path / "mine.hl7")}
    params = types.InitializeParams(capabilities=types.ClientCapabilities(), initialization_options=options)
    answer = await client.initialize_async(params)
    assert answer.server_info is not None
    assert answer.server_info.name == NAME
    client.initialized(types.InitializedParams())
    document = types.TextDocumentItem(file.as_uri(), "yaml", 1, TEXT)
    client.text_document_did_open(types.DidOpenTextDocumentParams(document))
    yield found
    await client.shutdown_async(None)
    client.exit(None)
    await client.stop()


@pytest.mark.smoke
async def test_an_editor_gets_mistakes_completion_hover_and_the_shipped_rule(editor: Editor) -> None:
    """All that `mappings lsp` says, of a text that is nowhere but in the editor; columns count UTF-16 units."""
    client = editor.client
    await editor.type(TEXT + "  name: PID-5 | dat\n")
    (problem,) = await editor.diagnostics()
    assert problem.message == "elements.name: unknown function 'dat'; did you mean 'date'?"
    assert problem.range == types.Range(types.Position(4, 2), types.Position(4, 6))
    assert problem.severity == types.DiagnosticSeverity.Error
    assert editor.file.read_text("utf-8") == TEXT
    completed = await client.text_document_completion_async(types.CompletionParams(**editor.at(4, 19)))
    assert isinstance(completed, types.CompletionList)
    item = next(one for one in completed.items if one.label == "date")
    assert item.detail == "date"
    assert isinstance(item.text_edit, types.TextEdit)
    assert item.text_edit.range == types.Range(types.Position(4, 16), types.Position(4, 19))
    line = "  birthDate: PID-7 | unless PID-8 = '😀' | "
    await editor.type(TEXT.replace("  birthDate: PID-7 | ", line))
    assert await editor.diagnostics() == []
    start = len(line) + 1
    hovered = await client.text_document_hover_async(types.HoverParams(**editor.at(3, start + 2)))
    assert hovered is not None
    assert hovered.range == types.Range(types.Position(3, start), types.Position(3, start + 4))
    assert isinstance(hovered.contents, types.MarkupContent)
    assert "Of mine.hl7:\n\n- PID-7 `19840229` → Patient.birthDate `1984-02-29`" in hovered.contents.value
    led = await client.text_document_definition_async(types.DefinitionParams(**editor.at(3, 4)))
    assert isinstance(led, types.Location)
    patient = shipped("mappings").resolve() / "resources" / "patient.yaml"
    assert led.uri == patient.as_uri()
    assert patient.read_text("utf-8").splitlines()[led.range.start.line].startswith("  birthDate:")


def test_without_its_library_the_command_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody meets an ImportError."""
    monkeypatch.setattr(command, "LIBRARY", "no_such_library")
    with pytest.raises(UsageError, match=r"pip install 'adt-engine\[editor\]'"):
        command.lsp()


def test_folders_and_messages_that_are_not_there_are_refused(tmp_path: Path) -> None:
    """Before the server begins."""
    with pytest.raises(UsageError, match="not a folder"):
        command.lsp(mappings=tmp_path / "none")
    with pytest.raises(UsageError, match="does not exist"):
        command.lsp(example=tmp_path / "none")


def test_open_files_are_of_the_folder_named_or_of_their_place(tmp_path: Path) -> None:
    """A closed file is the one on the disk again."""
    files = OpenFiles(tmp_path)
    inside, outside = tmp_path / "a" / "b.yaml", Path("/elsewhere/resources/patient.yaml")
    assert files.folder_of(inside) == tmp_path
    assert files.folder_of(outside) == Path("/elsewhere")
    files.put(inside, "a: b\r\n")
    assert files.project(tmp_path).edited == {inside: "a: b\n"}
    files.put(inside, None)
    assert files.project(tmp_path).edited == {}


async def test_a_change_during_a_check_is_checked_after_it_on_the_newest_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many changes come meanwhile, one more check is made; what the first one found is out of date."""
    file = tmp_path / "resources" / "patient.yaml"
    file.parent.mkdir()
    file.write_text(TEXT, "utf-8")
    server = make_server(tmp_path, None, lambda _: ())
    server.protocol._workspace = Workspace(None)
    sent: list[tuple[str, int]] = []
    monkeypatch.setattr(
        server, "text_document_publish_diagnostics", lambda params: sent.append((params.uri, len(params.diagnostics)))
    )
    begun, goes_on = asyncio.Event(), threading.Event()
    loop, texts = asyncio.get_running_loop(), []

    def check(project: MappingProject) -> tuple[Diagnostic, ...]:
        texts.append(project.text(file))
        loop.call_soon_threadsafe(begun.set)
        assert goes_on.wait(30)
        return diagnostics(project)

    monkeypatch.setattr(language_server, "diagnostics", check)
    checker = Checker(server, OpenFiles(tmp_path))

    async def type_(version: int, text: str) -> None:
        server.workspace.put_text_document(types.TextDocumentItem(file.as_uri(), "yaml", version, text))
        await checker.changed(file.as_uri())

    first = asyncio.create_task(type_(1, TEXT + "  a: b\n"))
    await begun.wait()
    for version in range(2, 10):
        await type_(version, TEXT + f"  name: PID-5 | dat{version}\n")
    goes_on.set()
    await first
    assert texts == [TEXT + "  a: b\n", TEXT + "  name: PID-5 | dat9\n"]
    assert sent == [(file.as_uri(), 1)]
