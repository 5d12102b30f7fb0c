"""Everything authored, read and compiled at once: channels with their mappings."""

from dataclasses import dataclass
from pathlib import Path

from engine.config.channel import Channel
from engine.config.channels import load_channels
from engine.config.destination import Destination
from engine.config.shipped import shipped
from engine.errors import ConfigurationError, Problem
from engine.mapping.compile import Mapping, compile_mapping, load


@dataclass(frozen=True, slots=True)
class Files:
    """Where the authored files and the data stand; `mappings` None: the shipped ones alone."""

    channels: Path
    mappings: Path | None
    data: Path


@dataclass(frozen=True, slots=True)
class Configuration:
    """What is in force: channels and their compiled mappings by name, destinations by name."""

    channels: dict[str, Channel]
    mappings: dict[str, Mapping]
    destinations: dict[str, Destination]


def configure(files: Files) -> Configuration:
    """Read and compile everything; ConfigurationError holds every problem of every file."""
    channels = load_channels(files.channels)
    folders = [folder for folder in (files.mappings, shipped("mappings")) if folder is not None]
    problems: list[Problem] = []
    mappings: dict[str, Mapping] = {}
    destinations: dict[str, Destination] = {}
    for channel in channels:
        try:
            mappings[channel.channel] = compile_mapping(load(folders, channel.mapping), channel)
        except ConfigurationError as error:
            problems.extend(problem for problem in error.problems if problem not in problems)
        for destination in channel.destinations:
            if destinations.setdefault(destination.name, destination) != destination:
                problems.append(_differs(files.channels, channel, destination))
    if problems:
        raise ConfigurationError(tuple(problems))
    return Configuration({channel.channel: channel for channel in channels}, mappings, destinations)


def _differs(folder: Path, channel: Channel, destination: Destination) -> Problem:
    return Problem(
        str(folder),
        1,
        1,
        f"{channel.channel}.destinations.{destination.name}",
        "another channel describes this destination otherwise",
        "one name is one destination: make both alike, or rename one",
    )
