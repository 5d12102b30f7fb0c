"""The language server of mapping files over standard input and output: what `engine/mapping/editor` answers, as LSP.

The texts of open files are used in place of those on the disk. A check that is asked for while another one runs begins
once that has ended, on the newest texts: typing fast costs no more than one check at a time.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.uris import from_fs_path, to_fs_path
from pygls.workspace import ServerTextPosition, ServerTextRange, TextDocument

from engine.config.settings import shipped
from engine.mapping.editor.completion import complete
from engine.mapping.editor.cursor import EditorPosition
from engine.mapping.editor.definition import definition
from engine.mapping.editor.hover import ExampleMessage, ExampleValues, hover
from engine.mapping.editor.project import Diagnostic, MappingProject, diagnostics, root_of

NAME: Final = "adt-engine"
# The key of the initialization options that names a file or folder of messages.
EXAMPLE: Final = "exampleMessage"
ITEM_KINDS: Final = {
    "key": types.CompletionItemKind.Property,
    "value": types.CompletionItemKind.EnumMember,
    "function": types.CompletionItemKind.Function,
    "word": types.CompletionItemKind.Keyword,
    "table": types.CompletionItemKind.Module,
    "type": types.CompletionItemKind.Class,
    "field": types.CompletionItemKind.Field,
}
WORD: Final = " \t,{}[]|()\"'"
MessagesOf = Callable[[Path], Iterable[bytes]]


@dataclass(slots=True)
class OpenFiles:
    """The open files of an editor, the projects that they belong to, and the diagnostics that it was sent.

    `mappings`: the folder of all of them; None where each file says by its place which folder it is of. `examples`:
    messages to show values of.
    """

    mappings: Path | None = None
    examples: tuple[ExampleMessage, ...] = ()
    texts: dict[Path, str] = field(default_factory=dict)
    sent: dict[Path, frozenset[str]] = field(default_factory=dict)
    _projects: dict[Path, MappingProject] = field(default_factory=dict)
    _values: dict[tuple[Path, str], ExampleValues] = field(default_factory=dict)

    def folder_of(self, file: Path) -> Path:
        """Return the mapping folder of a file."""
        if self.mappings is not None and file.is_relative_to(self.mappings):
            return self.mappings
        return root_of(file)

    def put(self, file: Path, text: str | None) -> None:
        """Keep the text of an open file, None for one that is closed; projects are read again."""
        if text is None:
            self.texts.pop(file, None)
        else:
            self.texts[file] = text.replace("\r\n", "\n")
        self.forget()

    def forget(self) -> None:
        """Read all projects again when they are next asked for."""
        self._projects.clear()
        self._values.clear()

    def project(self, folder: Path) -> MappingProject:
        """Return the project of a folder, with the open files in place of those on the disk."""
        if folder not in self._projects:
            ships = shipped("mappings").resolve()
            edited = {file: text for file, text in self.texts.items() if file.is_relative_to(folder)}
            self._projects[folder] = MappingProject((folder, ships), edited)
        return self._projects[folder]

    def at(self, file: Path) -> tuple[Path, MappingProject]:
        """Return the path of a file below its folder, and its project, looking at its mapping."""
        folder = self.folder_of(file)
        path, whole = file.relative_to(folder), self.project(folder)
        found = whole.looking_at(path)
        if found is not whole:
            found = self._projects.setdefault(folder / f"{found.name}.yaml", found)
        return path, found

    def values(self, project: MappingProject) -> ExampleValues:
        """Return the values that the lines of a project make."""
        key = (project.folder, project.name)
        if key not in self._values:
            self._values[key] = ExampleValues(project, self.examples)
        return self._values[key]


def serve(mappings: Path | None, example: Path | None, messages_of: MessagesOf) -> None:
    """Answer an editor on standard input and output until it ends.

    `example`: a file or folder of messages to show values of; `messages_of` reads those of one file.
    """
    make_server(mappings, example, messages_of).start_io()


def make_server(mappings: Path | None, example: Path | None, messages_of: MessagesOf) -> LanguageServer:
    """Return the server, its features registered."""
    server = LanguageServer(NAME, "1", text_document_sync_kind=types.TextDocumentSyncKind.Full)
    files = OpenFiles(mappings.resolve() if mappings else None, _examples(example, messages_of))
    _follow(server, Checker(server, files))
    _answer(server, files)

    @server.feature(types.INITIALIZE)
    def initialize(params: types.InitializeParams) -> None:
        """Take the messages that the editor's settings name."""
        options = params.initialization_options
        named = options.get(EXAMPLE) if isinstance(options, dict) else None
        if named:
            files.examples = _examples(Path(str(named)), messages_of)

    return server


def _follow(server: LanguageServer, checks: "Checker") -> None:
    """Register what follows the files that are open."""

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    async def opened(params: types.DidOpenTextDocumentParams) -> None:
        """Check the folder of a file that is opened."""
        await checks.changed(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    async def changed(params: types.DidChangeTextDocumentParams) -> None:
        """Check the folder of a file as it is typed."""
        await checks.changed(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    async def saved(params: types.DidSaveTextDocumentParams) -> None:
        """Check the folder of a file that is saved: others may have changed on the disk."""
        await checks.changed(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    async def closed(params: types.DidCloseTextDocumentParams) -> None:
        """Use the file on the disk again."""
        await checks.changed(params.text_document.uri, is_open=False)


def _answer(server: LanguageServer, files: OpenFiles) -> None:
    """Register what answers about a position."""

    @server.feature(
        types.TEXT_DOCUMENT_COMPLETION, types.CompletionOptions(trigger_characters=["|", "(", "-", ".", " "])
    )
    def completed(params: types.CompletionParams) -> types.CompletionList:
        """Return what may be written."""
        document, file, position = _asked(server, params)
        path, project = files.at(file)
        found = complete(document.source, position, path, project)
        line = params.position.line
        place = document.range_to_client_units(_range(line, found.start, found.end))
        items = [
            types.CompletionItem(
                label=item.label,
                kind=ITEM_KINDS[item.kind],
                detail=item.detail or None,
                documentation=item.text or None,
                sort_text=f"{number:05}",
                filter_text=item.label,
                text_edit=types.TextEdit(place, item.insert),
            )
            for number, item in enumerate(found.items)
        ]
        return types.CompletionList(is_incomplete=True, items=items)

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    def hovered(params: types.HoverParams) -> types.Hover | None:
        """Return what is said of a word, and the values of its line."""
        document, file, position = _asked(server, params)
        _, project = files.at(file)
        found = hover(document.source, position, file, project, files.values(project))
        if found is None:
            return None
        place = document.range_to_client_units(_range(params.position.line, found.start, found.end))
        return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, found.text), place)

    @server.feature(types.TEXT_DOCUMENT_DEFINITION)
    def defined(params: types.DefinitionParams) -> types.Location | None:
        """Return where a word is defined, or the shipped rule that its line replaces."""
        document, file, position = _asked(server, params)
        found = definition(document.source, position, file, files.at(file)[1])
        if found is None:
            return None
        place = types.Position(found.line - 1, 0)
        return types.Location(str(from_fs_path(found.file)), types.Range(place, place))


@dataclass(slots=True)
class Checker:
    """Checks folders one after the other, each on the newest texts, and sends what is wrong to the editor."""

    server: LanguageServer
    files: OpenFiles
    _waiting: set[Path] = field(default_factory=set)
    _is_running: bool = False

    async def changed(self, uri: str, *, is_open: bool = True) -> None:
        """Check the folder of a file, now or when the check that is running has ended."""
        file = _file(uri)
        if file is None:
            return
        self.files.put(file, self.server.workspace.get_text_document(uri).source if is_open else None)
        self._waiting.add(self.files.folder_of(file))
        if self._is_running:
            return
        self._is_running = True
        try:
            while self._waiting:
                folder = self._waiting.pop()
                found = await asyncio.to_thread(diagnostics, self.files.project(folder))
                if folder not in self._waiting:
                    self._send(folder, found)
        finally:
            self._is_running = False

    def _send(self, folder: Path, found: Iterable[Diagnostic]) -> None:
        """Send diagnostics by their files; an empty list to files that had some before."""
        by_file: dict[str, list[types.Diagnostic]] = {}
        for one in found:
            by_file.setdefault(one.problem.file, []).append(self._diagnostic(one))
        for file in self.files.sent.get(folder, frozenset()) | by_file.keys():
            params = types.PublishDiagnosticsParams(str(from_fs_path(file)), by_file.get(file, []))
            self.server.text_document_publish_diagnostics(params)
        self.files.sent[folder] = frozenset(by_file)

    def _diagnostic(self, one: Diagnostic) -> types.Diagnostic:
        problem = one.problem
        lines = self.files.project(self.files.folder_of(Path(problem.file))).text(Path(problem.file)).splitlines()
        line = lines[problem.line - 1] if problem.line <= len(lines) else ""
        end = problem.column
        while end <= len(line) and line[end - 1] not in WORD and line[end - 1 : end + 1] != ": ":
            end += 1
        place = self.server.workspace.position_codec.range_to_client_units(
            lines, _range(problem.line - 1, problem.column, max(end, problem.column))
        )
        severity = types.DiagnosticSeverity.Warning if one.is_warning else types.DiagnosticSeverity.Error
        text = f"{problem.path}: {problem.found}; {problem.expected}".removeprefix(": ")
        return types.Diagnostic(place, text, severity=severity, source=NAME)


def _asked(server: LanguageServer, params: Any) -> tuple[TextDocument, Path, EditorPosition]:
    """Return the document, file and position that a request asks about."""
    document = server.workspace.get_text_document(params.text_document.uri)
    place = document.position_from_client_units(params.position)
    file = _file(params.text_document.uri) or Path(document.filename or "untitled.yaml")
    return document, file, EditorPosition(place.line + 1, place.character + 1)


def _file(uri: str) -> Path | None:
    """Return the YAML file of a URI; None for anything else."""
    path = to_fs_path(uri)
    return Path(path).resolve() if path and path.endswith(".yaml") else None


def _range(line: int, start: int, end: int) -> ServerTextRange:
    """Return a range in a line from 0, its columns from 1."""
    return ServerTextRange(ServerTextPosition(line, start - 1), ServerTextPosition(line, end - 1))


def _examples(example: Path | None, messages_of: MessagesOf) -> tuple[ExampleMessage, ...]:
    """Return the messages of a file, or of the files of a folder; none of what cannot be read."""
    if example is None:
        return ()
    files = sorted(file for file in example.iterdir() if file.is_file()) if example.is_dir() else [example]
    return tuple(ExampleMessage(raw, file.name) for file in files for raw in messages_of(file))
