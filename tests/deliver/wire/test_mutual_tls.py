"""Mutual TLS: the engine shows its certificate, takes up a renewed one, and says so where it is refused."""

import asyncio
import contextlib
import socket
import ssl
import threading
from pathlib import Path

import pytest
import trustme
import uvloop
from cryptography.hazmat.primitives import serialization

from engine.config.channel import Channel
from engine.config.source import look, parse
from engine.deliver.verdict import VerdictKind
from engine.deliver.wire.client import FhirClient, contexts
from engine.errors import DestinationError, StartError
from engine.fhir.plan import Upsert
from engine.http.tls import KeyPair
from tests.deliver.fake_fhir import FakeFhir


class Seen:
    """A server that asks for certificates of an authority, and the files of a client."""

    def __init__(self, folder: Path, most: ssl.TLSVersion) -> None:
        self.authority = trustme.CA()
        self.ca_file = str(folder / "ca.pem")
        self.authority.cert_pem.write_to_path(self.ca_file)
        self.certificate, self.key = folder / "client.pem", folder / "client.key"
        self.issue(self.authority)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.maximum_version = most
        self.authority.issue_cert("127.0.0.1").configure_cert(self.context)
        self.authority.configure_trust(self.context)
        self.context.verify_mode = ssl.CERT_REQUIRED
        self.serials: list[str] = []
        self.observed: list[str] = []

    def issue(self, authority: trustme.CA) -> None:
        """Put a new pair in the place of the client's."""
        made = authority.issue_cert("engine.hospital.example")
        made.cert_chain_pems[0].write_to_path(str(self.certificate))
        made.private_key_pem.write_to_path(str(self.key))

    @property
    def settings(self):
        """The settings of a destination with that pair."""
        return {
            "ca_file": self.ca_file,
            "client_certificate": str(self.certificate),
            "client_key": str(self.key),
        }


@pytest.fixture(params=[ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["1.2", "1.3"])
async def mutual(request, tmp_path, site):
    """A FHIR server that asks for a certificate, with the files of a client."""
    seen = Seen(tmp_path, request.param)
    server = await FakeFhir().start(ssl=seen.context)
    seen.server = server
    site.base = server.base
    yield seen
    await site.close()
    await server.stop()


async def test_the_certificate_is_shown_to_server_and_token_endpoint(mutual, site, patient, monkeypatch):
    """Both ask for one, and both get it."""
    monkeypatch.setenv("CLIENT_SECRET", "SENTINEL")
    auth = {
        "type": "client_credentials",
        "token_url": site.base.replace("/fhir/R4", "/oauth/token"),
        "client_id": "engine",
    }
    site.open(**mutual.settings, auth=auth | {"client_secret": {"env": "CLIENT_SECRET"}})
    assert (await site.send(Upsert(patient("1")))).kind is VerdictKind.DELIVERED
    assert mutual.server.tokens == 1


@pytest.mark.parametrize("shown", ["another authority's", "none"])
@pytest.mark.parametrize("most", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["1.2", "1.3"])
def test_a_server_that_takes_no_such_certificate_is_never_guessed_about(tmp_path, most, shown):
    """The handshake ends before any request is read, so that nobody asks whether a write was applied.

    On uvloop, as the engine runs: asyncio loses the alert where the server resets the connection after it.
    """
    seen = Seen(tmp_path, most)
    seen.issue(trustme.CA())
    names = ("client_certificate", "client_key")
    pair = None if shown == "none" else KeyPair(seen.certificate, seen.key, names)
    listening = socket.create_server(("127.0.0.1", 0))

    def refuse():
        connection, _ = listening.accept()
        with contextlib.suppress(OSError):
            seen.context.wrap_socket(connection, server_side=True)

    refusing = threading.Thread(target=refuse)
    refusing.start()

    async def write():
        client = FhirClient(request_seconds=30, tls=contexts(seen.ca_file, pair))
        with pytest.raises(DestinationError) as caught:
            await client.send("PUT", f"https://127.0.0.1:{listening.getsockname()[1]}/x", [], b"{}")
        await client.close()
        return caught.value.codes

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        codes = runner.run(write())
    refusing.join()
    listening.close()
    # 1.2 has no alert of its own for a certificate that is missing.
    bare = shown == "none" and most is ssl.TLSVersion.TLSv1_2
    assert codes == (("tls",) if bare else ("client-certificate-refused",))


async def test_a_renewed_pair_is_used_at_the_next_connection(mutual, site, patient):
    """Without a restart; half of a new pair leaves the former one in use."""
    mutual.issue(trustme.CA())
    site.open(**mutual.settings, observe=mutual.observed.append)
    assert (await site.send(Upsert(patient("1")))).kind is VerdictKind.RETRY
    other = mutual.authority.issue_cert("engine.hospital.example")
    other.private_key_pem.write_to_path(str(mutual.key))
    assert (await site.send(Upsert(patient("1")))).kind is VerdictKind.RETRY
    assert (mutual.server.requests, mutual.observed) == ([], ["certificate-unusable"])
    other.cert_chain_pems[0].write_to_path(str(mutual.certificate))
    assert (await site.send(Upsert(patient("1")))).kind is VerdictKind.DELIVERED
    assert mutual.observed == ["certificate-unusable", "certificate-renewed"]


def test_a_pair_that_cannot_be_used_stops_the_start(tmp_path, site):
    """By the name of the key; nobody is asked for a passphrase."""
    seen = Seen(tmp_path, ssl.TLSVersion.TLSv1_3)
    trustme.CA().issue_cert("x").private_key_pem.write_to_path(str(seen.key))
    with pytest.raises(StartError, match=r"client_certificate and client_key: .* do not belong together"):
        site.open(**seen.settings)


@pytest.mark.parametrize("what", ["missing", "other", "encrypted", "none"])
def test_the_check_names_the_key(tmp_path, what):
    """Before the start, with the place in the file, and what would do."""
    seen = Seen(tmp_path, ssl.TLSVersion.TLSv1_3)
    if what == "missing":
        seen.key.unlink()
    elif what == "other":
        trustme.CA().issue_cert("x").private_key_pem.write_to_path(str(seen.key))
    elif what == "encrypted":
        key = serialization.load_pem_private_key(seen.key.read_bytes(), None)
        locked = serialization.BestAvailableEncryption(b"SENTINEL")
        seen.key.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, locked))
    text = (
        "channel: a\nlisten: {mllp: {port: 2575}}\ndestinations:\n  - name: x\n    base_url: https://fhir.example/R4\n"
        f"    client_certificate: {seen.certificate}\n    client_key: {seen.key}\n"
    )
    looked = look(parse(text, "a.yaml"), Channel)
    assert looked.problems == ()
    problems = looked.ask("unavailable")
    said = {"missing": "cannot be read", "other": "does not belong", "encrypted": "is encrypted"}
    assert [problem.path for problem in problems] == ([] if what == "none" else ["destinations.0.client_key"])
    assert all(said[what] in problem.found for problem in problems)
