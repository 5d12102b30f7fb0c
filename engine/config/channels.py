"""The folder of channel files: read whole, or refused with every problem of every file."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final

from engine.config.alerting import FILE as ALERTS
from engine.config.channel import AnyDestination, Channel
from engine.config.model import Placed, Step
from engine.config.sites import FILE as SITES
from engine.config.source import AuthoredFile, Looked, look, scan
from engine.errors import ConfigurationError, Problem

Read = Looked[Channel]

# Files of the folder that describe no channel.
OTHERS: Final = (ALERTS, SITES)


def load_channels(folder: Path) -> tuple[Channel, ...]:
    """Read every `*.yaml` of a folder but `alerts.yaml` and `sites.yaml`, in order of file name.

    ConfigurationError holds every problem of every file: what a file gets wrong by itself, what two files say of one
    name, port or destination, a folder that is absent or holds no channel, and `.yml` files, which would be overlooked.
    """
    read, problems = read_channels(folder)
    if problems:
        raise ConfigurationError(problems)
    return tuple(one.value for one in read if one.value is not None)


def read_channels(folder: Path) -> tuple[tuple[Read, ...], tuple[Problem, ...]]:
    """Return every channel file of a folder that can be read, mended where it is wrong, and every problem of all."""
    files, problems = _files(folder)
    read: list[Read] = []
    for path in files:
        try:
            read.append(look(scan(path), Channel))
            problems += read[-1].problems
        except ConfigurationError as error:
            problems += error.problems
    for number, one in enumerate(read):
        for earlier in read[:number]:
            problems += one.located(_clashes(one, earlier))
    return tuple(read), tuple(problems)


def file_of(folder: Path, channel: str) -> AuthoredFile | None:
    """Return the file of a folder that describes a channel, as it is now; None where none that can be read does."""
    for path in channel_files(folder):
        with suppress(ConfigurationError):
            source = scan(path)
            if isinstance(source.value, dict) and source.value.get("channel") == channel:
                return source
    return None


def channel_files(folder: Path) -> tuple[Path, ...]:
    """Return the channel files of a folder, in order of name."""
    return tuple(sorted(path for path in folder.glob("*.yaml") if path.name not in OTHERS))


def _files(folder: Path) -> tuple[Sequence[Path], list[Problem]]:
    if not folder.is_dir():
        return (), [Problem(str(folder), 1, 1, "", "no such folder", "make it, or name another with --channels")]
    files = channel_files(folder)
    misnamed = sorted(folder.glob("*.yml"))
    problems = [Problem(str(path), 1, 1, "", "would not be read", "rename it to .yaml") for path in misnamed]
    if not files and not misnamed:
        expected = "write one, such as riverbend-adt.yaml: see `adt-engine help channels`"
        problems.append(Problem(str(folder), 1, 1, "", "no channel file", expected))
    return files, problems


def _clashes(one: Read, earlier: Read) -> Iterator[Placed]:
    """Yield what a channel says that does not go together with what an earlier one says."""
    channel, other, file = one.value, earlier.value, earlier.source.file
    if channel is None or other is None:
        return
    same = f"{other.channel} ({file})"
    if channel.channel == other.channel:
        expected = f"it names the channel in {file}; rename one"
        yield from _agreed(earlier, ("channel",), f"the name {channel.channel} again", expected)
    if port := _shared_port(channel, other):
        place = ("listen", "mllp", "port")
        yield from _agreed(earlier, place, f"port {port} again", f"take another one: {same} listens there")
    for door in ("http", "fhir"):
        mine, theirs = getattr(channel.listen, door), getattr(other.listen, door)
        if mine and theirs and mine.path == theirs.path:
            expected = f"take another one: {same} has it"
            yield from _agreed(earlier, ("listen", door, "path"), f"the path {mine.path} again", expected)
    for at, destination in _described(channel):
        for there, twin in _described(other):
            if twin.name == destination.name:
                yield from _differences(earlier, at, there, destination, twin)


def _described(channel: Channel) -> Iterator[tuple[tuple[Step, ...], AnyDestination]]:
    """Yield the systems that a channel describes, with their places in its file."""
    for number, destination in enumerate(channel.destinations):
        yield ("destinations", number), destination
    if channel.listen.fhir is not None:
        yield ("listen", "fhir", "server"), channel.listen.fhir.server


def _agreed(earlier: Read, path: tuple[Step, ...], found: str, expected: str) -> Iterator[Placed]:
    """Yield a clash, unless what it clashes with is a guess."""
    if any(earlier.located([(path, found, expected)])):
        yield path, found, expected


def _differences(
    earlier: Read,
    place: tuple[Step, ...],
    there: tuple[Step, ...],
    destination: AnyDestination,
    twin: AnyDestination,
) -> Iterator[Placed]:
    """Yield the keys by which two files describe one destination otherwise."""
    for path in _otherwise(destination.server.model_dump(), twin.server.model_dump()):
        found = f"the destination {destination.name} again, with another {path[-1]}"
        expected = f"one name is one destination: write it as in {earlier.source.file}, or give another name"
        clash = (*there, *path), found, expected
        if any(earlier.located([clash])):
            yield (*place, *path), found, expected


def _otherwise(one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[tuple[Step, ...]]:
    # Both sides: of headers one may have a name that the other has not.
    for key in dict.fromkeys((*one, *other)):
        value, there = one.get(key), other.get(key)
        if isinstance(value, dict) and isinstance(there, dict):
            yield from ((key, *path) for path in _otherwise(value, there))
        elif value != there:
            yield (key,)


def _shared_port(one: Channel, other: Channel) -> int:
    """Return the port that both channels want, 0 for none."""
    first, second = one.listen.mllp, other.listen.mllp
    if first is None or second is None or first.port != second.port:
        return 0
    hosts = {_address(first.host), _address(second.host)}
    return first.port if len(hosts) == 1 or "" in hosts else 0


def _address(host: str) -> str:
    """Return the address that a host is, so that two can be compared; empty for one that means all."""
    try:
        address = ip_address("127.0.0.1" if host == "localhost" else host)
    except ValueError:
        return host.lower()
    return "" if address.is_unspecified else str(address)
