"""What the playground's editor says at a place of a file: the answers that `mappings lsp` gives to any other editor."""

from pathlib import Path
from typing import Any

from engine.errors import ConfigurationError
from engine.fhir.json import JsonObject
from engine.hl7.edit import written
from engine.mapping.editor.completion import complete
from engine.mapping.editor.cursor import EditorPosition
from engine.mapping.editor.definition import definition
from engine.mapping.editor.hover import ExampleMessage, ExampleValues, hover
from engine.mapping.editor.project import MappingProject
from engine.ops.playground.bench import Bench, BenchRequest

THIS_MESSAGE = "the message on the left"


def completed(question: BenchRequest, asked: JsonObject) -> JsonObject:
    """Return what may be written at a place of a file."""
    text, position, file, project = _place(question, asked)
    found = complete(text, position, project.below(file), project)
    return {"start": found.start, "end": found.end, "items": [item._asdict() for item in found.items]}


def explained_word(bench: Bench, question: BenchRequest, asked: JsonObject) -> JsonObject:
    """Return what is said of the word at a place of a file, the value of its line, and where it leads.

    Values are those of the message that was asked with, else of the cases; none where the files have problems.
    """
    text, position, file, project = _place(question, asked)
    message = str(asked["message"])
    messages = (ExampleMessage(written(message, question.channel.charset), THIS_MESSAGE),) if message.strip() else ()
    values: ExampleValues | None = None
    try:
        values = ExampleValues(project, messages, bench.watched(question))
    except ConfigurationError:  # the check shows them
        bench.forget()
    said = hover(text, position, file, project, values)
    led = definition(text, position, file, project)
    return {
        "text": said.text if said else "",
        "file": question.site.name(led.file) if led else "",
        "line": led.line if led else 0,
    }


def _place(question: BenchRequest, asked: Any) -> tuple[str, EditorPosition, Path, MappingProject]:
    """Return the text, the place in it, its file, and the files around it with the text in its place."""
    file, text = question.site.path(str(asked["path"])), str(asked["text"]).replace("\r\n", "\n")
    edited = {**question.edited, file: text} if file.is_relative_to(question.site.folder) else question.edited
    project = MappingProject(question.site.folders, edited, question.mapping)
    return text, EditorPosition(int(asked["line"]), int(asked["column"])), file, project
