"""The folder of channel files: read whole, or refused with every problem of every file."""

from collections.abc import Iterator, Sequence
from ipaddress import ip_address
from pathlib import Path

from engine.config.alerting import FILE as ALERTS
from engine.config.channel import Channel
from engine.config.source import Source, read, validate
from engine.errors import ConfigurationError, Problem

_Read = tuple[Source, Channel]


def load_channels(folder: Path) -> tuple[Channel, ...]:
    """Read every `*.yaml` of a folder but `alerts.yaml`, in order of file name.

    ConfigurationError holds every problem of every file: what a file gets wrong by itself, two channels of one name
    or on one port, a folder that is absent or holds no channel, and `.yml` files, which would be overlooked.
    """
    problems: list[Problem] = []
    channels: list[_Read] = []
    for path in _files(folder, problems):
        try:
            source = read(path)
            channels.append((source, validate(source, Channel)))
        except ConfigurationError as error:
            problems.extend(error.problems)
    problems.extend(_clashes(channels))
    if problems:
        raise ConfigurationError(tuple(problems))
    return tuple(channel for _, channel in channels)


def _files(folder: Path, problems: list[Problem]) -> Sequence[Path]:
    if not folder.is_dir():
        problems.append(Problem(str(folder), 1, 1, "", "no such folder", "make it, or name another with --channels"))
        return ()
    files = sorted(path for path in folder.glob("*.yaml") if path.name != ALERTS)
    misnamed = sorted(folder.glob("*.yml"))
    problems.extend(Problem(str(path), 1, 1, "", "would not be read", "rename it to .yaml") for path in misnamed)
    if not files and not misnamed:
        problems.append(
            Problem(str(folder), 1, 1, "", "no channel file", "write one, such as riverbend-adt.yaml (see README)")
        )
    return files


def _clashes(channels: Sequence[_Read]) -> Iterator[Problem]:
    for index, (source, channel) in enumerate(channels):
        for earlier, other in channels[:index]:
            if channel.channel == other.channel:
                yield source.problem(
                    ("channel",),
                    f"the name {channel.channel} again",
                    f"it names the channel in {earlier.file}; rename one",
                )
            port = _shared_port(channel, other)
            if port:
                yield source.problem(
                    ("listen", "mllp", "port"), f"port {port} again", f"{other.channel} listens there ({earlier.file})"
                )
            path = channel.listen.http.path if channel.listen.http else ""
            if path and other.listen.http and path == other.listen.http.path:
                yield source.problem(
                    ("listen", "http", "path"), f"the path {path} again", f"{other.channel} has it ({earlier.file})"
                )


def _shared_port(one: Channel, other: Channel) -> int:
    """Return the port that both channels want, 0 for none."""
    first, second = one.listen.mllp, other.listen.mllp
    if first is None or second is None or first.port != second.port:
        return 0
    same = first.host == second.host or _everywhere(first.host) or _everywhere(second.host)
    return first.port if same else 0


def _everywhere(host: str) -> bool:
    try:
        return ip_address(host).is_unspecified
    except ValueError:
        return host == ""
