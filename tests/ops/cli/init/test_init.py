"""`channels init`: questions, by a terminal or by options, to a channel file that was checked."""

import contextlib
import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any, Final, get_args

import pytest
from cryptography import x509

from engine.config.channel import Channel
from engine.config.channels import load_channels
from engine.config.profile import NAMES, profile_of
from engine.config.sign_in import Auth
from engine.config.source import look, parse
from engine.ops.cli.init.text import AUTH_KEYS, KINDS, Answer, channel_text, fault_of, questions, wrong
from tests.config.test_schema import both
from tests.config.test_schema import wrong as underlined
from tests.interchange.nursery import ran

LEAST: Final = ("--name", "lab", "--base-url", "https://fhir.example/base", "--timezone", "UTC")
MADE: Final = """\
# yaml-language-server: $schema=schema/channel.json
# Made by `adt-engine channels init`. Every key is explained by `adt-engine help channels`; after a change:
# `adt-engine channels check`, then `adt-engine channels reload`.
channel: lab

listen:
  mllp:
    host: 127.0.0.1
    port: 2575
# Nobody else may connect.
allow: [127.0.0.0/8]

# Of times without an offset.
timezone: UTC
# Whose numbers these are on the FHIR server, by CX.4; by default the engine makes a system of each.
# authorities: {HOSP: https://mrn.hospital.example}
# Whether A40 and its family may merge patients; otherwise they are refused.
allow_merge: false
mapping: adt

destinations:
  - name: fhir
    fhir: R4
    base_url: https://fhir.example/base
    # What is written here is planned by the channel's mapping, or by one of its own: `mapping: NAME`.
"""


def init(folder: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    """Run the command in a folder, where nobody can be asked."""
    return ran("channels", "init", *options, folder=folder)


def made(folder: Path, *options: str) -> Channel:
    """Make a channel of the least options and more, and return it as a start reads it."""
    done = init(folder, "--yes", *LEAST, *options)
    assert done.returncode == 0, done.stderr
    return load_channels(folder / "channels")[0]


def test_the_least_makes_a_file_that_runs(tmp_path: Path) -> None:
    """Name and server are enough; what a person reads there is the file, the next command, and nothing to mend."""
    done = init(tmp_path, "--yes", *LEAST)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "wrote channels/lab.yaml\nnext: adt-engine run --channels channels\n"
    assert (tmp_path / "channels/lab.yaml").read_text() == MADE
    assert {one.name for one in (tmp_path / "channels/schema").iterdir()} == {
        "channel.json",
        "alerts.json",
        "sites.json",
    }
    assert ran("channels", "check", "--strict", folder=tmp_path).returncode == 0


def test_each_question_is_an_option(tmp_path: Path) -> None:
    """All of them, into the keys that they stand for."""
    channel = made(
        tmp_path,
        *("--contact", "desk: 'a' #7", "--host", "10.1.2.3", "--port", "2601", "--tls", "files", "--mode", "shadow"),
        *("--certificate", "/etc/a b.pem", "--key", "/etc/k.pem", "--client-ca", "/etc/ca.pem"),
        *("--allow", "10.0.0.0/8", "--allow", "fd00::/8", "--source", "REG|HOSP", "--source", "ED"),
        *("--authority", "HOSP=https://mrn.example", "--authority", "=urn:oid:1.2.3", "--allow-merge"),
        *("--mapping", "oru", "--destination", "chart", "--fhir", "STU3", "--auth", "private_key_jwt"),
        *("--token-url", "https://a.example/t", "--client-id", "me", "--secret", "file:/etc/jwk", "--scope", "a b"),
    )
    mllp, (destination,) = channel.listen.mllp, channel.destinations
    assert mllp is not None
    assert mllp.tls is not None
    assert (channel.contact, mllp.host, mllp.port, channel.mode) == ("desk: 'a' #7", "10.1.2.3", 2601, "shadow")
    assert (mllp.tls.certificate, mllp.tls.key, mllp.tls.client_ca) == ("/etc/a b.pem", "/etc/k.pem", "/etc/ca.pem")
    assert (list(map(str, channel.allow)), channel.sources) == (["10.0.0.0/8", "fd00::/8"], ("REG|HOSP", "ED"))
    assert channel.authorities == {"HOSP": "https://mrn.example", "": "urn:oid:1.2.3"}
    assert (channel.allow_merge, channel.mapping, channel.timezone) == (True, "oru", "UTC")
    assert (destination.name, destination.fhir, destination.auth.type) == ("chart", "STU3", "private_key_jwt")
    assert destination.auth.private_key is not None
    assert destination.auth.private_key.file == "/etc/jwk"
    assert (destination.auth.token_url, destination.auth.client_id) == ("https://a.example/t", "me")
    assert destination.auth.scope == "a b"
    for value in both((tmp_path / "channels/lab.yaml").read_text()):
        assert underlined("channel", value) == []


def test_relays_stand_beside_the_server(tmp_path: Path) -> None:
    """Each with its name, host and port."""
    channel = made(
        tmp_path, "--relay", "radiology=ris.example:2575", "--relay", "lab=[::1]:2600", "--destination", "chart"
    )
    assert [one.name for one in channel.servers] == ["chart"]
    assert [(one.name, one.host, one.port) for one in channel.relays] == [
        ("radiology", "ris.example", 2575),
        ("lab", "::1", 2600),
    ]
    for value in both((tmp_path / "channels/lab.yaml").read_text()):
        assert underlined("channel", value) == []


def test_a_feed_may_only_be_passed_on(tmp_path: Path) -> None:
    """With a relay no server is needed, and nothing of one is asked."""
    done = init(tmp_path, "--yes", "--name", "lab", "--timezone", "UTC", "--relay", "radiology=127.0.0.1:2576")
    assert done.returncode == 0, done.stderr
    (channel,) = load_channels(tmp_path / "channels")
    assert [(one.name, one.type, one.address) for one in channel.relays] == [
        ("radiology", "mllp", "mllp://127.0.0.1:2576")
    ]
    assert channel.servers == ()
    assert ran("channels", "check", "--strict", folder=tmp_path).returncode == 0


BACK: Final = ("--from-fhir", "--relay", "reg=reg.example:2575", "--relay", "ris=ris.example:2576")


def test_old_systems_are_told_of_a_server(tmp_path: Path) -> None:
    """A channel of events: nothing of messages is asked, the server stands where it listens, each relay is told."""
    channel = made(tmp_path, *BACK, "--auth", "bearer", "--hl7", "2.3.1")
    events = channel.listen.fhir
    assert events is not None
    assert (events.path, events.source, events.server.name) == ("lab", "history", "fhir")
    assert (events.server.base_url, events.server.auth.type) == ("https://fhir.example/base", "bearer")
    assert (channel.listen.mllp, channel.servers) == (None, ())
    assert [(one.name, one.port, one.outgoing and one.outgoing.version) for one in channel.relays] == [
        ("reg", 2575, "2.3.1"),
        ("ris", 2576, "2.3.1"),
    ]
    for value in both((tmp_path / "channels/lab.yaml").read_text()):
        assert underlined("channel", value) == []


def test_a_subscription_has_its_endpoint_and_token(tmp_path: Path) -> None:
    """Where the server sends, and what it shows there; a path as seen from the file."""
    told = ("--events", "subscription", "--endpoint", "https://hub.example:8443", "--events-token", "file:hook.token")
    events = made(tmp_path, *BACK, *told).listen.fhir
    assert events is not None
    assert (events.source, events.endpoint) == ("subscription", "https://hub.example:8443")
    assert events.token is not None
    assert Path(str(events.token.file)).resolve() == (tmp_path / "hook.token").resolve()


def test_the_server_is_described_as_by_the_feed_beside_it(tmp_path: Path) -> None:
    """A feed to the shipped service and the way back, both made here, go together as they are."""
    server = ("--base-url", "http://127.0.0.1:8080/fhir/R4", "--timezone", "UTC", "--secret", "file:engine.secret")
    (tmp_path / "engine.secret").write_text("invented")
    (tmp_path / "engine.secret").chmod(0o600)
    for options in (("--name", "feed"), ("--name", "back", "--from-fhir", "--relay", "reg=127.0.0.1:2600")):
        done = init(tmp_path, "--yes", *options, *server)
        assert (done.returncode, done.stderr) == (0, "")
    assert ran("channels", "check", "--strict", folder=tmp_path).returncode == 0


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--from-fhir",), "there is no default for --relay"),
        ((*BACK, "--port", "2600"), "--port is of no use"),
        ((*BACK, "--hl7", "2.2"), "--hl7: found '2.2'"),
        ((*BACK, "--events", "telepathy"), "--events: found"),
        ((*BACK, "--events", "subscription"), "there is no default for --endpoint"),
        (("--events", "history"), "--events is of no use"),
    ],
)
def test_what_does_not_go_with_events_is_told(tmp_path: Path, options: tuple[str, ...], told: str) -> None:
    """By its option, and nothing is written."""
    done = init(tmp_path, "--yes", *LEAST, *options)
    assert done.returncode == 2
    assert told in done.stderr
    assert not (tmp_path / "channels").exists()


def test_paths_are_written_as_seen_from_the_file(tmp_path: Path) -> None:
    """They are given as seen from here: what was meant is what the channel reads, wherever it is read."""
    secret = tmp_path / "engine.secret"
    secret.write_text("swordfish")
    secret.chmod(0o600)
    tls = ("--tls", "files", "--certificate", "a.pem", "--key", "tls/a.key")
    channel = made(tmp_path, *tls, "--auth", "bearer", "--secret", "file:engine.secret")
    mllp, (destination,) = channel.listen.mllp, channel.destinations
    assert mllp is not None
    assert mllp.tls is not None
    assert (mllp.tls.certificate, mllp.tls.key) == tuple(
        f"{tmp_path}/channels/../{one}" for one in ("a.pem", "tls/a.key")
    )
    assert destination.auth.token is not None
    assert destination.auth.token.read() == "swordfish"


def test_what_the_machine_lacks_is_listed(tmp_path: Path) -> None:
    """The file is there, and what is missing for a start stands with its place and what would do."""
    done = init(tmp_path, "--yes", *LEAST, "--auth", "bearer", "--secret", "env:NO_SUCH_SECRET")
    assert done.returncode == 0
    assert "before it can run:" in done.stderr
    assert "the environment variable NO_SUCH_SECRET is not set" in done.stderr
    assert done.stdout.endswith("next: adt-engine channels check --channels channels\n")


def test_the_shipped_service_is_known_by_its_layout(tmp_path: Path) -> None:
    """Its token endpoint is the default, and the criteria by which it creates anybody are written."""
    base = ("--base-url", "http://127.0.0.1:8080/fhir/R4")
    (destination,) = made(tmp_path, *base, "--auth", "client_credentials").destinations
    assert destination.auth.token_url == "http://127.0.0.1:8080/oauth/token"
    assert destination.if_none_exist == "demographics"
    assert destination.auth.client_secret is not None
    assert destination.auth.client_secret.env == "ENGINE_SECRET"


def test_a_second_channel_gets_a_port_of_its_own(tmp_path: Path) -> None:
    """The first that no other channel of the folder has; told to programs, too."""
    made(tmp_path)
    done = init(tmp_path, "--json", "--yes", *LEAST, "--name", "ward")
    told: dict[str, Any] = json.loads(done.stdout)
    assert told == {
        "file": "channels/ward.yaml",
        "certificate": None,
        "problems": [],
        "warnings": [],
        "next": "adt-engine run --channels channels",
    }
    ports = [channel.listen.mllp.port for channel in load_channels(tmp_path / "channels") if channel.listen.mllp]
    assert ports == [2575, 2576]


def test_nothing_is_written_over(tmp_path: Path) -> None:
    """Neither a channel file nor a certificate, whoever made it."""
    made(tmp_path, "--tls", "test")
    files = {one: one.read_bytes() for one in tmp_path.rglob("*") if one.is_file()}
    done = init(tmp_path, "--yes", *LEAST)
    assert (done.returncode, "channels/lab.yaml is there already" in done.stderr) == (2, True)
    (tmp_path / "channels/lab.yaml").rename(tmp_path / "old.yaml")
    done = init(tmp_path, "--yes", *LEAST, "--tls", "test")
    assert (done.returncode, "lab.key cannot be created (File exists)" in done.stderr) == (2, True)
    assert not (tmp_path / "channels/lab.yaml").exists()
    assert all(one.read_bytes() == content for one, content in files.items() if one.exists())


def test_the_test_certificate_is_for_this_machine_and_not_for_long(tmp_path: Path) -> None:
    """Its key is its owner's alone."""
    channel = made(tmp_path, "--tls", "test")
    assert channel.listen.mllp is not None
    assert channel.listen.mllp.tls is not None
    certificate = x509.load_pem_x509_certificate(Path(channel.listen.mllp.tls.certificate).read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "localhost" in names.get_values_for_type(x509.DNSName)
    assert (certificate.not_valid_after_utc - certificate.not_valid_before_utc).days == 30
    assert Path(channel.listen.mllp.tls.key).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("options", "told"),
    [
        pytest.param((), "nothing can be asked here (no terminal, or --json): answer by --name", id="no terminal"),
        pytest.param(("--json",), "--base-url", id="json"),
        pytest.param(("--yes",), "there is no default for --name, --base-url: give them as well", id="no default"),
        pytest.param(("--yes", *LEAST, "--host", "10.1.2.3"), "--certificate, --key, --allow", id="beyond loopback"),
        pytest.param(("--yes", *LEAST, "--port", "70000"), "--port: found '70000'; a number of", id="port"),
        pytest.param(("--yes", *LEAST, "--name", "a b"), "--name: found 'a b'; a name of 1 to", id="name"),
        pytest.param(("--yes", *LEAST, "--tls", "maybe"), "found 'maybe'; one of none, files, test", id="tls"),
        pytest.param(("--yes", *LEAST, "--allow", "10.1.2.3/8"), "--allow: found '10.1.2.3/8'", id="network"),
        pytest.param(("--yes", *LEAST, "--timezone", "Amerika/New_York"), "did you mean America/New_York?", id="zone"),
        pytest.param(("--yes", *LEAST, "--authority", "HOSP"), "found 'HOSP'; NAME=URI", id="authority"),
        pytest.param(("--yes", *LEAST, "--authority", "A=b"), "--authority: found 'b'; an abs", id="system"),
        pytest.param(("--yes", *LEAST, "--auth", "bearer", "--secret", "swordfish"), "refer to it", id="secret"),
        pytest.param(("--yes", *LEAST, "--profile", "azur"), "--profile: found 'azur'", id="profile"),
        pytest.param(("--yes", *LEAST, "--scope", "a"), "--scope is of no use with the other answers", id="unused"),
        pytest.param(("--yes", *LEAST, "--relay", "ris.example"), "found 'ris.example'; NAME=HOST:PORT", id="relay"),
        pytest.param(("--yes", *LEAST, "--relay", "a=b:0"), "found 'a=b:0'; NAME=HOST:PORT", id="port of a relay"),
        pytest.param(("--yes", "--name", "lab", "--timezone", "UTC"), "no default for --base-url", id="nowhere"),
        pytest.param(("--yes", *LEAST, "--mapping", "x\ty"), "--mapping: found", id="control character"),
    ],
)
def test_what_is_wrong_or_missing_is_told(tmp_path: Path, options: tuple[str, ...], told: str) -> None:
    """By the option that answers it; exit 2, and nothing is written; never a secret."""
    done = init(tmp_path, *options)
    assert done.returncode == 2
    assert told in done.stderr
    assert "swordfish" not in done.stderr
    assert not (tmp_path / "channels").exists()


def typing(folder: Path, typed: list[str], *options: str) -> "subprocess.CompletedProcess[str]":
    """Run the command at a terminal at which some lines are typed."""
    primary, secondary = pty.openpty()
    os.write(primary, "".join(f"{line}\n" for line in typed).encode())
    done = subprocess.run(
        [sys.executable, "-m", "engine", "channels", "init", *options],
        stdin=secondary,
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=120,
        check=False,
    )
    for end in (primary, secondary):
        with contextlib.suppress(OSError):
            os.close(end)
    return done


def test_the_profile_is_guessed_and_its_sign_in_is_offered(tmp_path: Path) -> None:
    """By the address; what is shown to choose from is what that server takes, and a slip of the pen is told."""
    base = "https://healthlake.eu-west-2.amazonaws.com/datastore/d/r4"
    typed = [*[""] * 13, base, "azur", "", "", "", ""]
    done = typing(tmp_path, typed, "--name", "lab", "--contact", "desk 7")
    assert done.returncode == 0, done.stderr
    assert "  azure       Azure Health Data Services" in done.stderr
    assert "did you mean azure?" in done.stderr
    assert "Which server it is [healthlake]:" in done.stderr
    assert "Credentials [aws_sigv4]:" in done.stderr
    assert "Region of AWS [eu-west-2]:" in done.stderr
    assert "entra_certificate" not in done.stderr
    ((destination,),) = (channel.destinations for channel in load_channels(tmp_path / "channels"))
    assert (destination.profile, destination.create) == ("healthlake", "idempotency-key")
    assert (destination.auth.type, destination.auth.region) == ("aws_sigv4", "eu-west-2")


@pytest.mark.parametrize(
    ("base", "profile"),
    [
        ("https://ws-fhir.fhir.azurehealthcareapis.com", "azure"),
        ("https://healthcare.googleapis.com/v1/projects/p/locations/l/datasets/d/fhirStores/f/fhir", "google"),
        ("https://api.medplum.com/fhir/R4", "medplum"),
        ("http://127.0.0.1:8080/fhir/R4", "shipped"),
        ("http://127.0.0.1:8080/fhir", "generic"),
        ("https://fhir.example/fhir/R4", "generic"),
    ],
)
def test_an_address_speaks_for_a_profile(base: str, profile: str) -> None:
    """By its host; a layout that several servers have says nothing, but on this machine."""
    (question,) = (one for one in questions(()) if one.name == "profile")
    assert question.default({"base_url": base}) == profile


@pytest.mark.parametrize("name", NAMES)
def test_what_a_profile_offers_can_be_answered(tmp_path: Path, name: str) -> None:
    """Its sign-in is one that is known, and with it the file is read without a conflict."""
    assert set(profile_of(name).sign_in) <= set(KINDS)
    where = ("--token-url", "https://a.example/token") if name == "azure" else ()
    region = ("--region", "us-east-1") if name == "healthlake" else ()
    (destination,) = made(tmp_path, "--profile", name, *where, *region).destinations
    usual = next(iter(profile_of(name).sign_in), "none")
    assert (destination.profile, destination.auth.type) == (name, usual)
    token = profile_of(name).token_path
    if token and usual == "client_credentials":
        assert destination.auth.token_url == f"https://fhir.example{token}"
    if name == "azure":
        assert destination.auth.scope == "https://fhir.example/base/.default"


def test_a_person_is_asked_with_a_reason_for_each(tmp_path: Path) -> None:
    """At a terminal: a return takes the default, a wrong answer is told and asked again, options are not asked."""
    typed = ["a b", "lab", "", "", "70000", "2600", "test", "", "REG|HOSP, ED|HOSP", "UTC", "", "y"]
    typed += ["", "", "", "", "https://fhir.example/base", "", "", ""]
    done = typing(tmp_path, typed, "--contact", "desk 7")
    assert done.returncode == 0, done.stderr
    assert "found 'a b'; a name of 1 to" in done.stderr
    assert "found '70000'" in done.stderr
    assert "Port [2575]:" in done.stderr
    assert "Whom to call" not in done.stderr
    (channel,) = load_channels(tmp_path / "channels")
    assert channel.listen.mllp is not None
    assert channel.listen.mllp.tls is not None
    assert (channel.channel, channel.contact, channel.listen.mllp.port) == ("lab", "desk 7", 2600)
    assert (channel.sources, channel.allow_merge) == (("REG|HOSP", "ED|HOSP"), True)
    asked = [question for question in questions(()) if question.why in done.stderr]
    assert len(asked) > 12


ODD: Final = (
    "null",
    "~",
    "a: b",
    "a:",
    "# a",
    "- a",
    "[a]",
    "{a: b}",
    "'a'",
    '"',
    "\\",
    "no",
    "1e3",
    "*a",
    "a,b",
    "é|Ü",
    "a b",
)


@pytest.mark.parametrize("text", ODD)
def test_every_text_is_read_as_it_was_meant(text: str) -> None:
    """Whatever YAML would make of it: in a line, in a list, as a key."""
    answers: dict[str, Answer] = {
        question.name: found if (found := question.default({"host": "127.0.0.1"})) is not None else ""
        for question in questions(())
        if question.name not in {"certificate", "key", "client_ca", "token_url", "tls"}
    }
    answers |= {"tls": "none", "name": "lab", "base_url": "https://fhir.example", "contact": text}
    is_authority = not fault_of(("authorities",), {text: "https://a.example"})
    senders = [text] * (not fault_of(("sources",), [text]))
    answers |= {"source": senders}
    answers |= {"authority": [f"{text}=https://a.example"] * is_authority, "auth": "bearer", "secret": f"file:{text}"}
    looked = look(parse(channel_text(answers), "x"), Channel)
    assert looked.value is not None
    assert looked.problems == ()
    assert (looked.value.contact, looked.value.sources) == (text, tuple(senders))
    assert looked.value.authorities == ({text: "https://a.example"} if is_authority else {})
    assert looked.value.destinations[0].auth.token is not None
    assert looked.value.destinations[0].auth.token.file == text


def test_each_default_is_an_answer() -> None:
    """And each question has a key of channel files, but TLS, which is the three below it."""
    for question in questions((2575,)):
        with contextlib.suppress(KeyError):
            default = question.default({"host": "127.0.0.1", "base_url": "http://a.example/fhir", "auth": "none"})
            assert default is None or not wrong(question, default), question.name
        assert question.path or question.name == "tls"
    assert fault_of(("listen", "mllp", "port"), "2575") == ""


@pytest.mark.parametrize(
    ("kind", "options", "keys"),
    [
        ("basic", ("--secret", "env:PW"), {"username": "engine", "password": {"env": "PW"}}),
        (
            "entra_certificate",
            ("--token-url", "https://a.example/t", "--auth-certificate", "/etc/e.pem", "--secret", "file:/etc/e.key"),
            {
                "token_url": "https://a.example/t", "client_id": "engine", "certificate": "/etc/e.pem",
                "private_key": {"file": "/etc/e.key"}, "scope": "https://fhir.example/base/.default",
            },
        ),
        ("managed_identity", (), {"audience": "https://fhir.example/base"}),
        ("google_service_account", ("--secret", "file:/etc/g.json"), {"key_file": {"file": "/etc/g.json"}}),
        ("google_metadata", (), {}),
        ("aws_sigv4", ("--region", "us-east-1"), {"region": "us-east-1"}),
    ],
)  # fmt: skip
def test_each_kind_of_credentials_is_written(
    tmp_path: Path, kind: str, options: tuple[str, ...], keys: dict[str, Any]
) -> None:
    """With the keys that it needs, and no others."""
    (destination,) = made(tmp_path, "--auth", kind, *options).destinations
    found = destination.auth.model_dump(exclude_defaults=True, exclude_none=True)
    assert found == {"type": kind} | keys


def test_every_kind_of_credentials_can_be_asked_for() -> None:
    """None is left out in silence."""
    kinds = get_args(Auth.model_fields["type"].annotation)
    assert set(AUTH_KEYS) == set(kinds) - {"none"} == set(KINDS) - {"none"}
