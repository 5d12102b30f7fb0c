"""The mapping files that the playground works on: those of the site, and the shipped ones."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from engine.config.channel import Channel
from engine.config.settings import shipped
from engine.config.source import parse
from engine.errors import ConfigurationError, Problem, UsageError
from engine.mapping.authoring.case import CHANNEL_KEYS
from engine.mapping.files.document import FOLDERS, KINDS, SHIPPED, Edited

TESTS: Final = "tests"
# Where the files of a site would stand that has none yet.
NO_SITE: Final = Path("mappings-of-the-site")
_PART: Final = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,79}"
NAME: Final = re.compile(rf"(?:tests/|(?:{_PART}/)?(?:resources|datatypes|tables)/)?{_PART}\.yaml")
MOST_FILES: Final = 40
# What of a channel says how a message is read and mapped; nothing of its destinations leaves the engine.
OF_CHANNEL: Final = CHANNEL_KEYS | {"charset", "undecodable", "limits", "version", "filters"}


@dataclass(frozen=True, slots=True)
class MappingSite:
    """The folder of a site's mapping files, and the shipped one; they are the same where a site changes those."""

    folder: Path
    shipped: Path

    @classmethod
    def of(cls, folder: Path | None) -> "MappingSite":
        """Return the site of an engine's mapping folder, None for none."""
        return cls(folder or NO_SITE, shipped("mappings"))

    @property
    def folders(self) -> tuple[Path, ...]:
        """Where files are looked for, the shipped ones last."""
        return (self.folder, self.shipped)

    def edited(self, texts: Mapping[str, str]) -> Edited:
        """Return texts by the paths of the files that they are in place of; lines end as in files."""
        return {self.folder / path: text.replace("\r\n", "\n") for path, text in texts.items()}

    def name(self, file: str) -> str:
        """Return what a file is called: its path below the site's folder, or `shipped/...`."""
        for folder, prefix in ((f"{self.folder}/", ""), (f"{self.shipped}/", SHIPPED)):
            if file.startswith(folder):
                return prefix + file.removeprefix(folder)
        return file.rpartition("/")[2]

    def path(self, name: str) -> Path:
        """Return the file of a name; UsageError for what cannot be one of these folders."""
        inner = name.removeprefix(SHIPPED)
        if not NAME.fullmatch(inner):
            raise UsageError("path is none of a mapping file; `mappings.files` lists them")
        return (self.shipped if name != inner else self.folder) / inner

    def files(self) -> Iterator[Path]:
        """Yield every file: the site's, then the shipped ones."""
        for folder in dict.fromkeys(self.folders):
            named = sorted(folder.glob("*.yaml"))
            yield from named
            for kind in (*KINDS, TESTS):
                yield from sorted((folder / kind).glob("*.yaml"))
            for name in (file.stem for file in named if file.stem not in FOLDERS):
                for kind in KINDS:
                    yield from sorted((folder / name / kind).glob("*.yaml"))

    def marks(self) -> tuple[tuple[str, int, int], ...]:
        """Return a mark of what the files are now: another one once any of them is written."""
        rows = (path for folder in dict.fromkeys(self.folders) for path in sorted(folder.glob("**/tables/*.csv")))
        stats = ((str(path), path.stat()) for path in (*self.files(), *rows))
        return tuple((path, stat.st_mtime_ns, stat.st_size) for path, stat in stats)


def checked_names(texts: Mapping[str, str]) -> None:
    """UsageError for edited files that could not be mapping files of a site, or for too many of them."""
    if len(texts) > MOST_FILES:
        raise UsageError(f"edited holds more than {MOST_FILES} files")
    if any(not NAME.fullmatch(name) for name in texts):
        raise UsageError(
            "edited names a file that is no mapping file: NAME.yaml, or one below resources, datatypes, tables or tests"
        )


def digest(content: bytes) -> str:
    """Return the mark of a file's bytes."""
    return sha256(content).hexdigest()


def refuse_outside(site: MappingSite, edited: Edited) -> None:
    """ConfigurationError for an edited case that takes its message of a file elsewhere: what is there is not theirs."""
    problems: list[Problem] = []
    for path, text in edited.items():
        if path.parent == site.folder / TESTS:
            source = parse(text, str(path))
            cases = source.value.get("tests") if isinstance(source.value, dict) else None
            for number, case in enumerate(cases if isinstance(cases, list) else ()):
                file = case.get("file") if isinstance(case, dict) else None
                if file and not (path.parent / str(file)).resolve().is_relative_to(site.folder.resolve()):
                    place = ("tests", number, "file")
                    problems.append(source.problem(place, "a file elsewhere", "one below the mapping folder"))
    if problems:
        raise ConfigurationError(tuple(problems))


def asked_of(folder: Path | None, channel: Channel, edited: Mapping[str, str]) -> dict[str, object]:
    """Return what every question says: where the files are, what is edited, and as on which channel."""
    part = channel.model_dump(mode="json", by_alias=True, exclude_defaults=True, include=set(OF_CHANNEL))
    part["allow_merge"] = channel.allow_merge
    where = str(folder.resolve()) if folder is not None else ""
    return {"folder": where, "edited": dict(edited), "mapping": channel.mapping, "channel": part}
