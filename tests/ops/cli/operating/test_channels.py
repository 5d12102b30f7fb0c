import json
import os
import signal
from pathlib import Path
from typing import Final

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from typer.testing import CliRunner

from engine.__main__ import app as adt_engine
from engine.config.settings import shipped
from engine.errors import ConfigurationError, Problem
from engine.ops.cli.operating.channels import app
from tests.flow.program import Program
from tests.ops.alone import CHANNEL, alone, write_channel
from tests.pipeline.test_fhir_intake import channel_file as events_file

NOT_SET: Final = "the environment variable NO_SUCH_SECRET is not set"
TOKEN: Final = "auth: {type: bearer, token: {env: NO_SUCH_SECRET}}"


def checked(folder: Path, *options: str) -> tuple[Problem, ...]:
    """Return the problems that `channels check` finds in the channels of a folder, none where it is content."""
    result = CliRunner().invoke(app, ["check", "--channels", str(folder / "channels"), *options])
    if isinstance(result.exception, ConfigurationError):
        return result.exception.problems
    assert result.exit_code == 0, result.exception
    return ()


def _refused(engine: Program) -> set[str]:
    return {line["error"] for line in engine.lines if line["event"] == "reload refused"}


def told(problems: tuple[Problem, ...]) -> set[tuple[str, str]]:
    """Return the file and the path of each problem."""
    return {(Path(problem.file).name, problem.path) for problem in problems}


def write_everything_wrong(folder: Path) -> set[tuple[str, str]]:
    """Write a mistake of every kind into a folder; return the file and the path of each."""
    first = CHANNEL.format(name="a", port=2575).replace("127.0.0.1, port", "0.0.0.0, prot")
    write_channel(folder, f"{first.replace('timezone', 'timezon')}mapping: adtt\nstale: never\n")
    destination = f"name: nowhere, base_url: 'http://127.0.0.1:9/other', if_none_exist: demographic, {TOKEN}"
    second = f"channel: a\nlisten: {{mllp: {{port: 2575}}}}\ndestinations:\n  - {{{destination}}}\n"
    write_channel(folder, second, "b.yaml")
    write_channel(folder, "channels: {c: {no_traffic_minutes: 5}}\nheld_lanes: 0\n", "alerts.yaml")
    (folder / "mine" / "resources").mkdir(parents=True, exist_ok=True)
    (folder / "mine" / "resources" / "patient.yaml").write_text("elements: {birthDate: PID-99 | date}\n")
    visit = "resource: Encounter\nextends: shipped/encounter\nelements: {classy: PV1-2}\n"
    (folder / "mine" / "resources" / "encounter.yaml").write_text(visit)
    return {
        ("a.yaml", "listen.mllp.prot"),
        ("a.yaml", "listen.mllp.host"),
        ("a.yaml", "timezon"),
        ("a.yaml", "mapping"),
        ("a.yaml", "stale"),
        ("b.yaml", "channel"),
        ("b.yaml", "listen.mllp.port"),
        ("b.yaml", "destinations.0.base_url"),
        ("b.yaml", "destinations.0.auth.type"),
        ("b.yaml", "destinations.0.auth.token"),
        ("b.yaml", "destinations.0.auth.token.env"),
        ("b.yaml", "destinations.0.if_none_exist"),
        ("alerts.yaml", "channels.c"),
        ("alerts.yaml", "held_lanes"),
        ("patient.yaml", ""),
        ("patient.yaml", "resource"),
        ("patient.yaml", "elements.birthDate"),
        ("encounter.yaml", "elements.classy"),
    }


def test_the_shipped_channel_is_checked_and_listed() -> None:
    """A good folder is said to be good, and its channels are listed for people and for programs."""
    folder = str(shipped("channels"))
    assert "1 channel in" in CliRunner().invoke(app, ["check", "--channels", folder, "--offline"]).stdout
    assert "riverbend-adt" in CliRunner().invoke(app, ["list", "--channels", folder]).stdout
    (row,) = json.loads(CliRunner().invoke(app, ["list", "--channels", folder, "--json"]).stdout)
    assert (row["listens_on"], row["destinations"], row["allow_merge"]) == ("127.0.0.1:2575", ["interchange"], True)


def test_a_channel_of_events_is_listed_with_what_its_relays_are_told_by(tmp_path: Path) -> None:
    """Which server, who brings the events, and the outgoing mapping: nothing of it is mapped to FHIR."""
    (tmp_path / "back.yaml").write_text(json.dumps(events_file()))
    listed = CliRunner().invoke(app, ["list", "--channels", str(tmp_path)]).stdout
    assert "registry-back: events of record (webhook), told to ehr by out/adt" in listed
    assert "refused" not in listed
    (row,) = json.loads(CliRunner().invoke(app, ["list", "--channels", str(tmp_path), "--json"]).stdout)
    assert (row["listens_on"], row["outgoing"]) == ("POST /fhir/events/registry", {"ehr": "adt"})


@pytest.mark.parametrize("command", ["check", "list"])
def test_a_bad_file_is_a_configuration_error(tmp_path: Path, command: str) -> None:
    """Problems reach `main`, which prints them all and ends with exit 2."""
    (tmp_path / "a.yaml").write_text("channel: a\n")
    result = CliRunner().invoke(app, [command, "--channels", str(tmp_path)])
    assert isinstance(result.exception, ConfigurationError)
    assert len(result.exception.problems) == 2


def test_everything_that_is_wrong_is_told_at_once(tmp_path: Path) -> None:
    """Channels, alerts, mappings and what the machine lacks: no mistake hides another, each is told once."""
    wrong = write_everything_wrong(tmp_path)
    problems = checked(tmp_path, "--mappings", str(tmp_path / "mine"))
    assert told(problems) == wrong
    assert len(problems) == len(wrong)
    assert [problem.found for problem in problems if problem.path.endswith(".env")] == [NOT_SET]


async def test_a_start_and_a_reload_tell_what_the_check_tells(tmp_path: Path) -> None:
    """`channels check`, `run` and a reload say the same of the same files, line for line."""
    (tmp_path / "mine").mkdir()
    async with alone(tmp_path, "--mappings", "mine") as engine:
        write_everything_wrong(tmp_path)
        expected = checked(tmp_path, "--mappings", str(tmp_path / "mine"))
        os.kill(engine.pid, signal.SIGHUP)
        await engine.line("reload refused")
        await engine.wait_for(lambda: len(_refused(engine)) == len(expected), 30)
        refused = _refused(engine)
    prefix = f"{tmp_path}/"
    assert refused == {str(problem).replace(prefix, "") for problem in expected}
    arguments = ("run", "--channels", "channels", "--mappings", "mine", "--data", "other")
    started = Program(tmp_path, *arguments)
    await started.spawn()
    assert await started.ended() == 2
    said = b"".join(started.said).decode()
    assert all(str(problem).replace(prefix, "") in said for problem in expected)


def test_elsewhere_the_files_alone_are_checked(tmp_path: Path) -> None:
    """An author's laptop has neither secrets nor certificates: --offline leaves them out, and nothing else."""
    text = CHANNEL.format(name="a", port=0).replace("base_url", f"{TOKEN}, base_url")
    write_channel(tmp_path, text.replace("port: 0", "port: 0, tls: {certificate: /no/a.pem, key: /no/a.key}"))
    assert told(checked(tmp_path)) == {
        ("a.yaml", "listen.mllp.tls.certificate"),
        ("a.yaml", "listen.mllp.tls.key"),
        ("a.yaml", "destinations.0.auth.token.env"),
    }
    assert checked(tmp_path, "--offline") == ()
    write_channel(tmp_path, text.replace("timezone", "timezon"))
    assert told(checked(tmp_path, "--offline")) == {("a.yaml", "timezon")}


@pytest.mark.parametrize(
    ("url", "told_of"),
    [
        ("http://fhir.riverbend.example/R4", True),
        ("http://192.0.2.7:8080/R4", True),
        ("https://fhir.riverbend.example/R4", False),
        ("http://localhost:8080/R4", False),
        ("http://[::1]/R4", False),
    ],
)
def test_plain_http_to_another_machine_is_a_warning(tmp_path: Path, url: str, *, told_of: bool) -> None:
    """It is told and does not fail; with --strict it does. On this machine nobody listens in."""
    write_channel(tmp_path, CHANNEL.format(name="a", port=0).replace("http://127.0.0.1:9/fhir/R4", url))
    result = CliRunner().invoke(adt_engine, ["channels", "check", "--channels", str(tmp_path / "channels")])
    assert result.exit_code == 0
    assert ("warning: " in result.stderr and "a.yaml:6:" in result.stderr) is told_of
    assert told(checked(tmp_path, "--strict")) == ({("a.yaml", "destinations.0.base_url")} if told_of else set())


def test_criteria_that_a_server_may_ignore_are_a_warning(tmp_path: Path) -> None:
    """Who ignores a search parameter takes anybody for the patient."""
    text = CHANNEL.format(name="a", port=0).replace("base_url", "if_none_exist: 'mrn={value}', base_url")
    write_channel(tmp_path, text)
    assert checked(tmp_path) == ()
    (problem,) = checked(tmp_path, "--strict")
    assert "'mrn', which is no search parameter of Patient" in problem.found


def test_a_token_endpoint_in_the_clear_is_a_warning(tmp_path: Path) -> None:
    """The client's secret would go over the line."""
    auth = "auth: {type: client_credentials, client_id: a, client_secret: {env: HOME}, token_url: 'http://a.example/t'}"
    write_channel(tmp_path, CHANNEL.format(name="a", port=0).replace("base_url", f"{auth}, base_url"))
    assert told(checked(tmp_path, "--strict")) == {("a.yaml", "destinations.0.auth.token_url")}


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate and its key in files, and a channel that names them."""
    leaf = trustme.CA().issue_cert("localhost")
    certificate, key = tmp_path / "server.pem", tmp_path / "server.key"
    certificate.write_bytes(b"".join(pem.bytes() for pem in leaf.cert_chain_pems))
    leaf.private_key_pem.write_to_path(key)
    tls = f"tls: {{certificate: {certificate}, key: {key}, client_ca: {certificate}}}"
    write_channel(tmp_path, CHANNEL.format(name="a", port=0).replace("port: 0", f"port: 0, {tls}"))
    return certificate, key


def test_certificate_and_key_that_belong_together(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    """What a listener can use is no problem."""
    assert all(file.exists() for file in pair)
    assert checked(tmp_path) == ()


@pytest.mark.parametrize(
    ("at", "content", "path", "found"),
    [
        pytest.param(0, b"no PEM", "certificate", "holds no certificate that can be read", id="no certificate"),
        pytest.param(1, b"no PEM", "key", "holds no private key that can be read", id="no key"),
        pytest.param(0, None, "certificate", "cannot be read (No such file", id="no certificate file"),
        pytest.param(1, None, "key", "cannot be read (No such file", id="no key file"),
    ],
)
def test_a_certificate_or_key_that_cannot_be_used(
    tmp_path: Path, pair: tuple[Path, Path], at: int, content: bytes | None, path: str, found: str
) -> None:
    """The file that is wrong is named, not the other."""
    pair[at].unlink()
    if content is not None:
        pair[at].write_bytes(content)
    problem = next(one for one in checked(tmp_path) if one.path == f"listen.mllp.tls.{path}")
    assert found in problem.found
    assert str(pair[at]) in problem.found
    assert not [one for one in checked(tmp_path) if one.path.endswith(("key", "certificate")) and one != problem]


def test_a_key_of_another_certificate(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    """A key that is sound and does not fit is told before a listener meets it."""
    pair[1].unlink()
    trustme.CA().issue_cert("localhost").private_key_pem.write_to_path(pair[1])
    (problem,) = checked(tmp_path)
    assert problem.path == "listen.mllp.tls.key"
    assert "does not belong to the certificate" in problem.found


def test_an_encrypted_key(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    """Nobody is there to type its passphrase."""
    key = load_pem_private_key(pair[1].read_bytes(), None)
    sealed = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"letmein"))
    pair[1].write_bytes(sealed)
    (problem,) = checked(tmp_path)
    assert "is encrypted" in problem.found
    assert "openssl pkey" in problem.expected


def test_a_secret_file_that_others_may_read(tmp_path: Path) -> None:
    """What delivery would refuse is told before."""
    secret = tmp_path / "secret"
    secret.write_text("swordfish")
    secret.chmod(0o644)
    auth = f"auth: {{type: bearer, token: {{file: {secret}}}}}"
    write_channel(tmp_path, CHANNEL.format(name="a", port=0).replace("base_url", f"{auth}, base_url"))
    (problem,) = checked(tmp_path)
    assert (problem.path, problem.line) == ("destinations.0.auth.token.file", 6)
    assert "chmod 600" in problem.found
    assert "swordfish" not in str(problem)
    secret.chmod(0o600)
    assert checked(tmp_path) == ()
