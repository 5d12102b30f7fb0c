"""A destination of type mllp: keys that do not go together, what is warned of, and where it is."""

from pathlib import Path
from typing import Any, Final

import orjson
import pytest
import trustme

from engine.config.channel import Channel
from engine.config.channels import read_channels
from engine.config.relay import Relay
from engine.config.source import look, parse
from engine.pipeline.configuration import Files, examine, lacking

RIS: Final = {"name": "ris", "type": "mllp", "host": "127.0.0.1", "port": 2576}
STEPS: Final = [{"set": {"MSH-5": "RIS"}}]


def channel(*destinations: dict[str, Any], **more: Any) -> str:
    """Return the file of a channel with destinations."""
    listen = {"http": {"path": "a"}}
    return orjson.dumps({"channel": "a", "listen": listen, "destinations": destinations} | more).decode()


def written(text: str) -> Channel:
    """Return a channel, which has no problems."""
    looked = look(parse(text, "a.yaml"), Channel)
    assert looked.problems == ()
    assert looked.value is not None
    return looked.value


@pytest.mark.parametrize(
    ("text", "path", "found", "expected"),
    [
        (channel(RIS | {"edit": STEPS}), "destinations.0.edit", "steps, though the original", "write send: edited"),
        (channel(RIS | {"send": "edited"}), "destinations.0.edit", "missing", "add a step such as"),
        (channel(RIS | {"control_id": "own"}), "destinations.0.control_id", "own, though", "write send: edited"),
        (channel(RIS | {"connections": 2}), "destinations.0.connections", "with order: feed", "write order: patient"),
        (
            channel(RIS | {"send": "edited", "edit": [{"when": "PID-5"}]}),
            "destinations.0.edit.0.set", "neither set nor remove", "give one of them",
        ),
        (
            channel(RIS | {"tls": {"certificate": "a.pem"}}),
            "destinations.0.tls.key", "missing", "add it: certificate needs key",
        ),
        (
            channel(RIS | {"tls": {"key": "a.key"}}),
            "destinations.0.tls.certificate", "missing", "add it: key needs certificate",
        ),
        (
            channel(RIS, unhandled_messages="relay"),
            "unhandled_messages", "no destination with relay: all", "write relay: all at a destination of type mllp",
        ),
        (channel(RIS | {"base_url": "http://a"}), "destinations.0.base_url", "unknown key", "valid here: "),
        (channel(RIS | {"connection": 2}), "destinations.0.connection", "unknown key", "did you mean connections"),
        (channel({"name": "a", "type": "mlpp", "port": 1}), "destinations.0.type", "found 'mlpp'", "did you mean mllp"),
        (channel({"name": "a", "type": "mllp", "port": 1}), "destinations.0.host", "missing", "add it"),
    ],
)  # fmt: skip
def test_what_does_not_go_together_is_named_with_its_place(text: str, path: str, found: str, expected: str) -> None:
    """By the keys that a relay has, and none of a FHIR server's."""
    problems = look(parse(text, "a.yaml"), Channel).problems
    problem = next(one for one in problems if one.path == path)
    assert found in problem.found
    assert expected in problem.expected
    assert "base_url" not in "".join(one.expected for one in problems)


def test_a_line_in_the_clear_to_another_machine_is_warned_of(tmp_path: Path) -> None:
    """On loopback nobody else reads it; with TLS nobody can."""
    trustme.CA().cert_pem.write_to_path(tmp_path / "ca.pem")
    other = RIS | {"host": "ris.example"}
    for settings, told in ((RIS, 0), (other, 1), (other | {"tls": {"ca_file": "ca.pem"}}, 0)):
        (tmp_path / "a.yaml").write_text(channel(settings))
        examined = examine(Files(tmp_path, None, tmp_path))
        assert examined.problems == ()
        assert [one.path for one in examined.warnings] == ["destinations.0.tls"] * told


def test_files_of_tls_are_looked_at_before_a_start(tmp_path: Path) -> None:
    """One that is missing, and a key of another certificate."""
    made, other = trustme.CA().issue_cert("a"), trustme.CA().issue_cert("b")
    made.cert_chain_pems[0].write_to_path(tmp_path / "own.pem")
    other.private_key_pem.write_to_path(tmp_path / "other.key")
    tls = {"ca_file": "gone.pem", "certificate": "own.pem", "key": "other.key"}
    (tmp_path / "a.yaml").write_text(channel(RIS | {"tls": tls}))
    (looked,), _ = read_channels(tmp_path)
    told = {one.path: one.found for one in lacking(looked)}
    assert "No such file" in told["destinations.0.tls.ca_file"]
    assert any("do not belong together" in found or "does not" in found for found in told.values()), told


def test_a_host_makes_a_relay_and_a_base_url_a_server() -> None:
    """Where `type` is written, that; a relay stands beside servers, and each knows its own."""
    fhir = {"name": "fhir", "base_url": "http://127.0.0.1/fhir/R4"}
    both = written(channel(fhir, RIS, fhir | {"name": "other", "type": "fhir"}))
    assert [one.name for one in both.servers] == ["fhir", "other"]
    assert [(one.name, one.address) for one in both.relays] == [("ris", "mllp://127.0.0.1:2576")]


def test_several_channels_name_one_relay_alike(tmp_path: Path) -> None:
    """Another port under the same name is another system: it is refused, by its key."""
    for name, port in (("a", 2576), ("b", 2577)):
        (tmp_path / f"{name}.yaml").write_text(
            channel(RIS | {"port": port}, channel=name, listen={"http": {"path": name}})
        )
    _, problems = read_channels(tmp_path)
    assert [(one.path, Path(one.file).name) for one in problems] == [("destinations.0.port", "b.yaml")]


@pytest.mark.parametrize(
    ("settings", "address", "concurrency"),
    [
        ({"host": "::1"}, "mllp://[::1]:2576", 1),
        ({"tls": {}}, "mllps://127.0.0.1:2576", 1),
        ({"order": "patient", "connections": 8}, "mllp://127.0.0.1:2576", 8),
    ],
)
def test_where_it_is_and_how_many_are_under_way(settings: dict[str, Any], address: str, concurrency: int) -> None:
    """One, in the order of the feed."""
    relay = Relay.model_validate(RIS | settings)
    assert (relay.address, relay.concurrency) == (address, concurrency)
