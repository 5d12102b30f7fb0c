"""Everything authored, read and compiled at once: channels with their mappings."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.config.alerting import Alerting, load_alerting
from engine.config.channel import Channel
from engine.config.channels import load_channels
from engine.config.destination import Destination
from engine.config.shipped import shipped
from engine.errors import ConfigurationError, Problem
from engine.mapping.case import cases_of, run_cases
from engine.mapping.compile import Mapping as CompiledMapping
from engine.mapping.compile import MappingSource, compile_mapping, load


@dataclass(frozen=True, slots=True)
class Files:
    """Where the authored files and the data stand; `mappings` None: the shipped ones alone."""

    channels: Path
    mappings: Path | None
    data: Path


@dataclass(frozen=True, slots=True)
class Configuration:
    """What is in force: channels and their compiled mappings by name, destinations by name.

    `marks`: one of each mapping together with the cases beside it.
    """

    channels: dict[str, Channel]
    mappings: dict[str, CompiledMapping]
    destinations: dict[str, Destination]
    alerting: Alerting
    marks: frozenset[str]


def configure(files: Files, *, in_force: frozenset[str] | None = None) -> Configuration:
    """Read and compile everything; ConfigurationError holds every problem of every file.

    `in_force`: the marks of what this would replace; the cases beside mappings of other marks are run as well, and one
    that differs is a problem. None: no case is run.
    """
    channels = load_channels(files.channels)
    problems: list[Problem] = []
    mappings: dict[str, CompiledMapping] = {}
    destinations: dict[str, Destination] = {}
    sources = _sources(files, channels, problems)
    marks = _marks(files, sources)
    if in_force is not None and not problems:
        problems += _failures(files, {name: one for name, one in sources.items() if marks.get(name) not in in_force})
    for channel in channels:
        source = sources.get(channel.mapping)
        if source is not None:
            mappings[channel.channel] = compile_mapping(source, channel)
        for destination in channel.destinations:
            if destinations.setdefault(destination.name, destination) != destination:
                problems.append(_differs(files.channels, channel, destination))
    if problems:
        raise ConfigurationError(tuple(problems))
    return Configuration(
        {channel.channel: channel for channel in channels},
        mappings,
        destinations,
        load_alerting(files.channels),
        frozenset(marks.values()),
    )


def _sources(files: Files, channels: Sequence[Channel], problems: list[Problem]) -> dict[str, MappingSource]:
    """Return every mapping that a channel names, read once."""
    folders = [folder for folder in (files.mappings, shipped("mappings")) if folder is not None]
    sources: dict[str, MappingSource] = {}
    for name in dict.fromkeys(channel.mapping for channel in channels):
        try:
            sources[name] = load(folders, name)
        except ConfigurationError as error:
            problems.extend(problem for problem in error.problems if problem not in problems)
    return sources


def _marks(files: Files, sources: Mapping[str, MappingSource]) -> dict[str, str]:
    """Return a mark of each mapping together with the cases beside it; none where a case cannot be read."""
    tests = (files.mappings or shipped("mappings")) / "tests"
    try:
        cases = [hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(tests.glob("*.yaml"))]
    except OSError:
        return {}
    return {name: hashlib.sha256(repr((name, one.hash, cases)).encode()).hexdigest() for name, one in sources.items()}


def _failures(files: Files, sources: Mapping[str, MappingSource]) -> Iterator[Problem]:
    """Yield the site's cases that differ, or the shipped ones where there is no site; places, never values."""
    try:
        cases = cases_of(files.mappings or shipped("mappings"))
    except ConfigurationError as error:
        yield from error.problems
        return
    for name, source in sources.items():
        for case, _, told in run_cases([case for case in cases if case.mapping in {"", name}], source):
            if told:
                where = ", ".join(dict.fromkeys(one.split(":")[0] for one in told))
                found = f"the case differs in {where}"
                expected = "see `adt-engine mappings test`"
                yield Problem(case.source.file, case.line, 1, f"tests.{case.number}", found, expected)


def _differs(folder: Path, channel: Channel, destination: Destination) -> Problem:
    return Problem(
        str(folder),
        1,
        1,
        f"{channel.channel}.destinations.{destination.name}",
        "another channel describes this destination otherwise",
        "one name is one destination: make both alike, or rename one",
    )
