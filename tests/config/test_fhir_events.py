"""A channel that takes the events of a FHIR server: what goes with it, and what does not."""

from pathlib import Path
from typing import Any, Final

import orjson
import pytest

from engine.pipeline.configuration import Files, examine

SERVER: Final = {"name": "record", "base_url": "https://fhir.example/R4"}
EHR: Final = {"name": "ehr", "type": "mllp", "host": "127.0.0.1", "port": 2575}
EVENTS: Final[dict[str, Any]] = {
    "channel": "registry-back",
    "listen": {"fhir": {"path": "registry", "server": SERVER}},
    "destinations": [EHR],
}


def problems_of(folder: Path, *channels: dict[str, Any]) -> dict[str, str]:
    """Return what is found wrong, by its path."""
    for number, channel in enumerate(channels):
        (folder / f"{number}.yaml").write_bytes(orjson.dumps(channel))
    return {one.path: f"{one.found}; {one.expected}" for one in examine(Files(folder, None, folder)).problems}


def fhir(**keys: Any) -> dict[str, Any]:
    """Return the listener with more keys."""
    return {"listen": {"fhir": EVENTS["listen"]["fhir"] | keys}}


@pytest.mark.parametrize(
    ("change", "path", "words"),
    [
        ({"listen": EVENTS["listen"] | {"http": {"path": "r"}}}, "listen.fhir", "a channel of their own"),
        ({"destinations": [SERVER | {"name": "other"}]}, "destinations.0.name", "type: mllp"),
        ({"destinations": [EHR | {"send": "original"}]}, "destinations.0.send", "see outgoing"),
        ({"destinations": [EHR | {"name": "record"}]}, "listen.fhir.server.name", "a name of its own"),
        ({"destinations": [EHR | {"outgoing": {"except_from": ["nobody"]}}]},
         "destinations.0.outgoing.except_from.0", "no channel 'nobody'"),
        ({"allow_merge": True}, "allow_merge", "leave allow_merge out"),
        ({"mode": "load"}, "mode", "live or shadow"),
        (fhir(source="subscription"), "listen.fhir.endpoint", "source: subscription needs endpoint"),
        (fhir(endpoint="https://hub.example"), "listen.fhir.endpoint", "write source: subscription"),
        (fhir(every_seconds=5), "listen.fhir.every_seconds", "write source: history"),
    ],
)  # fmt: skip
def test_what_does_not_go_with_events(tmp_path: Path, change: dict[str, Any], path: str, words: str) -> None:
    """Each is named with its place, and what would do."""
    assert words in problems_of(tmp_path, EVENTS | change)[path]


def test_a_channel_of_messages_makes_none(tmp_path: Path) -> None:
    """`outgoing` is for events: a feed's relays pass on what came in."""
    channel = EVENTS | {"listen": {"http": {"path": "r"}}, "destinations": [EHR | {"outgoing": {}}]}
    assert "leave outgoing out" in problems_of(tmp_path, channel)["destinations.0.outgoing"]


def test_one_server_is_described_once(tmp_path: Path) -> None:
    """The FHIR server of events is the destination of that name, and its relay another channel's."""
    feed = {"channel": "riverbend-adt", "listen": {"http": {"path": "r"}}, "destinations": [SERVER, EHR]}
    relay = EHR | {"outgoing": {"version": "2.3", "except_from": ["riverbend-adt"]}}
    assert problems_of(tmp_path, feed, EVENTS | {"destinations": [relay]}) == {}
    other = fhir(server=SERVER | {"base_url": "https://other.example/R4"})
    found = problems_of(tmp_path, feed, EVENTS | other | {"destinations": [relay]})
    assert "the destination record again" in found["listen.fhir.server.base_url"]


def test_two_channels_have_two_paths(tmp_path: Path) -> None:
    """A path leads to one channel."""
    found = problems_of(tmp_path, EVENTS, EVENTS | {"channel": "second-back"})
    assert "the path registry again" in found["listen.fhir.path"]
