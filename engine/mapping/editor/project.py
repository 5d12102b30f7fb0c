"""A mapping folder as its editor has it: the files of the site and the shipped ones, open texts in place of some."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Final, NamedTuple, Self

from engine.errors import ConfigurationError, Problem
from engine.mapping.authoring.case import cases_of
from engine.mapping.authoring.cost import Costs
from engine.mapping.authoring.negation import Negations
from engine.mapping.compile import MappingSource, load, read
from engine.mapping.files.document import (
    FOLDERS,
    KINDS,
    OUT,
    Document,
    Documents,
    Edited,
    mapping_names,
    read_documents,
    yaml_in,
)
from engine.mapping.files.document import Problems as ProblemList
from engine.mapping.outgoing.case import outgoing_cases
from engine.mapping.outgoing.compile import compile_outgoing, read_outgoing

DEFAULT: Final = "adt"
TESTS: Final = "tests"


class NamedFile(NamedTuple):
    """A table or a data type that has a file: its name, and a few words about it."""

    name: str
    about: str


@dataclass(frozen=True)
class MappingProject:
    """The folders that files are looked for in, the shipped one last, and the edited texts in place of files.

    `name`: the mapping that completion, hover and definition look at.
    """

    folders: tuple[Path, ...]
    edited: Edited = field(default_factory=dict)
    name: str = DEFAULT

    @property
    def folder(self) -> Path:
        """The folder of the site, or the shipped one."""
        return self.folders[0]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the site's mappings; the shipped one where it has no event table of its own."""
        own = {path.stem for path in self.edited if path.parent == self.folder and path.suffix == ".yaml"}
        return tuple(sorted({*mapping_names(self.folders[:1]), *own})) or (DEFAULT,)

    @cached_property
    def documents(self) -> Documents | None:
        """The files of the mapping as far as they can be read; None where nothing can."""
        try:
            return read_documents(self.folders, self.name, ProblemList(), self.edited)
        except ConfigurationError:
            return None

    @cached_property
    def source(self) -> MappingSource:
        """The mapping, to be compiled; ConfigurationError where there is nothing to compile."""
        return read(self.folders, self.name, self.edited)

    def tables(self) -> Iterator[NamedFile]:
        """Yield the tables by name, with the HL7 table that each is of."""
        for name, document in (self.documents.tables if self.documents else {}).items():
            hl7 = document.value.get("hl7")
            yield NamedFile(name, f"HL7 table {hl7}" if hl7 else "a table")

    def datatypes(self) -> Iterator[NamedFile]:
        """Yield the data types that have a file, with the FHIR type that each becomes."""
        for name, document in (self.documents.datatypes if self.documents else {}).items():
            yield NamedFile(name, str(document.value.get("to", "")))

    def resources(self) -> Iterator[str]:
        """Yield the resources that have a file."""
        yield from self.documents.resources if self.documents else ()

    def document(self, file: Path) -> Document | None:
        """Return the document of a file; None for one that is not of the mapping."""
        found = self.documents.everything() if self.documents else iter(())
        return next((one for one in found if Path(one.source.file) == file), None)

    def below(self, file: Path) -> Path:
        """Return the path of a file below its mapping folder; its name for one of another folder."""
        folder = next((one for one in self.folders if file.is_relative_to(one)), None)
        return file.relative_to(folder) if folder else Path(file.name)

    def text(self, file: Path) -> str:
        """Return the text of a file, edited or as it is on the disk; empty if it cannot be read."""
        if file in self.edited:
            return self.edited[file]
        try:
            return file.read_text("utf-8")
        except (OSError, UnicodeDecodeError):
            return ""

    def looking_at(self, path: Path) -> Self:
        """Return the project with the mapping that a file is of: its own, or one that reads it.

        `path` is the file's below its mapping folder.
        """
        own = path.parts[0].removesuffix(".yaml")
        name = own if own in self.names else DEFAULT if DEFAULT in self.names else self.names[0]
        return self if name == self.name else replace(self, name=name)


class Diagnostic(NamedTuple):
    """A problem of a file, or a warning, which `mappings check` prints and does not refuse."""

    problem: Problem
    is_warning: bool = False


def diagnostics(project: MappingProject) -> tuple[Diagnostic, ...]:
    """Return what `mappings check` and `mappings out check` report of a folder, and the problems of its cases."""
    found: dict[Diagnostic, None] = {}
    for name in project.names:
        try:
            source = load(project.folders, name, project.edited)
        except ConfigurationError as error:
            found |= dict.fromkeys(map(Diagnostic, error.problems))
        else:
            warnings = (*Costs(source).warnings(), *Negations(source.documents).warnings())
            found |= dict.fromkeys(Diagnostic(one, is_warning=True) for one in warnings)
    for check in (_check_cases, _check_outgoing):
        try:
            check(project)
        except ConfigurationError as error:
            found |= dict.fromkeys(map(Diagnostic, error.problems))
    return tuple(sorted(found))


def _check_cases(project: MappingProject) -> None:
    cases_of(project.folder, project.edited)


def _check_outgoing(project: MappingProject) -> None:
    """Check the outgoing mappings of the site; ConfigurationError holds every problem of one."""
    out = project.folder / OUT
    for name in sorted({path.stem for path in yaml_in(out, project.edited)}):
        compile_outgoing(read_outgoing(project.folders, name, project.edited))
    outgoing_cases(project.folder, project.edited)


def root_of(file: Path) -> Path:
    """Return the mapping folder that a file is in, by the names of the folders above it."""
    folder = file.parent
    if folder.name in {*KINDS, TESTS, "segments"}:
        folder = folder.parent
        if folder.name == OUT:
            return folder.parent
        alone = folder.name not in FOLDERS and (folder.parent / f"{folder.name}.yaml").is_file()
        return folder.parent if alone else folder
    return folder.parent if folder.name == OUT else folder
