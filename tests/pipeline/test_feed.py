"""Which destinations are the server whose events a channel takes."""

import pytest

from engine.config.channel import Channel
from engine.pipeline.feed import Feed, Feeds, is_watched, writers_of


def feeds(base_url: str, name: str = "record") -> Feeds:
    """Return a feed to a server, and one of the events of `https://fhir.example/R4`."""
    server = {"name": "events", "base_url": "https://fhir.example/R4"}
    relay = {"name": "ehr", "type": "mllp", "host": "127.0.0.1", "port": 9}
    channels = [
        {"channel": "adt", "listen": {"mllp": {"port": 2575}}, "destinations": [{"name": name, "base_url": base_url}]},
        {"channel": "back", "listen": {"fhir": {"path": "back", "server": server}}, "destinations": [relay]},
    ]
    made = [Channel.model_validate(one) for one in channels]
    return {one.channel: Feed(one, None, (), frozenset(), {}) for one in made}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("base_url", "name", "same"),
    [
        ("https://fhir.example/R4", "record", True),
        ("https://fhir.example/R4/", "record", True),
        ("https://FHIR.example:443/R4", "record", True),
        ("https://other.example/R4", "events", True),
        ("https://fhir.example/R5", "record", False),
        ("https://fhir.example:8443/R4", "record", False),
        ("http://fhir.example/R4", "record", False),
    ],
)
def test_a_server_is_known_by_its_name_or_its_place(base_url: str, name: str, *, same: bool) -> None:
    """However its address is spelt: what the engine writes there does not come back."""
    found = feeds(base_url, name)
    events = found["back"].channel.listen.fhir
    assert events is not None
    assert writers_of(found, events.server) == ((name,) if same else ())
    assert is_watched(found, name) is same
