"""`adt-engine doctor` as a command."""

import asyncio
import subprocess
from dataclasses import replace
from pathlib import Path

import orjson
import pytest
import trustme

from engine.config.destination import Destination as Settings
from engine.deliver.wire.abilities import Abilities
from engine.errors import DestinationError
from engine.ops.cli.examine.check import CheckStatus
from engine.ops.cli.examine.destinations import check_of, refusal_of
from tests.deliver.fake_fhir import FakeFhir, Step
from tests.interchange.nursery import ran

CHANNEL = """\
channel: a
listen: {mllp: {host: 127.0.0.1, port: 0}}
destinations:
  - {name: nowhere, base_url: "http://127.0.0.1:9/fhir/R4"}
"""


def doctor(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the doctor on a folder."""
    (folder / "channels").mkdir(exist_ok=True)
    (folder / "channels" / "a.yaml").write_text(CHANNEL)
    return ran("doctor", "--channels", "channels", "--data", "data", *arguments, folder=folder)


def test_what_is_to_be_fixed_ends_with_exit_1(tmp_path: Path) -> None:
    """A destination that does not answer is named with its address and the next step."""
    done = doctor(tmp_path, "--json")
    assert done.returncode == 1
    checks = {one["what"]: one for one in orjson.loads(done.stdout)}
    assert checks["destination nowhere"]["standing"] == "mend"
    assert checks["destination nowhere"]["do"].startswith("start it")
    assert checks["port of a"]["standing"] == "ok"
    assert checks["engine"]["found"] == "not running"


def checks_of(folder: Path, channel: str, *arguments: str) -> dict[str, dict[str, str]]:
    """Run the doctor on a channel; return what it found by what it looked at."""
    (folder / "channels").mkdir(exist_ok=True)
    (folder / "channels" / "a.yaml").write_text(channel)
    done = ran("doctor", "--json", "--channels", "channels", *arguments, folder=folder)
    return {one["what"]: one for one in orjson.loads(done.stdout)}


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    """A secret by its variable, a file by its path, the data folder without dots; and the rest is looked at, too."""
    channel = CHANNEL.replace('R4"}', 'R4", ca_file: gone.pem, auth: {type: bearer, token: {env: NO_SUCH_TOKEN}}}')
    found = checks_of(tmp_path, channel, "--data", "channels/../data")
    token = found["destinations[0].auth.token of a"]
    assert (token["standing"], token["found"]) == ("mend", "the environment variable NO_SUCH_TOKEN is not set")
    assert found["destination nowhere"]["found"].startswith(
        "channels/gone.pem cannot be read (No such file or directory)"
    )
    assert found["data folder"]["found"] == str(tmp_path / "data")


def test_a_destination_is_asked_by_its_own_settings(tmp_path: Path) -> None:
    """Its proxy is tried and blamed, its certificate has a day, its secrets are named by their place and not shown."""
    for name in ("password", "api-key"):
        (tmp_path / name).write_text(f"SENTINEL-{name}")
        (tmp_path / name).chmod(0o600)
    made = trustme.CA().issue_cert("engine")
    made.cert_chain_pems[0].write_to_path(str(tmp_path / "own.pem"))
    made.private_key_pem.write_to_path(str(tmp_path / "own.key"))
    (tmp_path / "channels").mkdir()
    (tmp_path / "channels" / "a.yaml").write_text(
        CHANNEL.replace(
            'R4"}',
            'R4", proxy: "http://127.0.0.1:9", proxy_user: engine, proxy_password: {file: ../password}, headers:'
            " {X-Key: {file: ../api-key}, X-Gone: {env: NO_SUCH_KEY}}, client_certificate: ../own.pem, client_key:"
            " ../own.key}",
        )
    )
    done = ran("doctor", "--json", "--channels", "channels", "--data", "data", folder=tmp_path)
    found = {one["what"]: one for one in orjson.loads(done.stdout)}
    assert "NO_SUCH_KEY is not set" in found["destinations[0].headers.X-Gone of a"]["found"]
    assert found["client certificate for nowhere"]["standing"] == "ok"
    assert found["destination nowhere"]["found"].endswith("proxy_password cannot be read or sent")
    assert "SENTINEL" not in done.stdout + done.stderr
    file = tmp_path / "channels" / "a.yaml"
    file.write_text(file.read_text().replace(", X-Gone: {env: NO_SUCH_KEY}", ""))
    done = ran("doctor", "--json", "--channels", "channels", "--data", "data", folder=tmp_path)
    found = {one["what"]: one for one in orjson.loads(done.stdout)}
    assert found["destination nowhere"]["found"].endswith(": proxy-unreachable")
    assert found["destination nowhere"]["do"] == "start the proxy, or correct proxy"
    assert "SENTINEL" not in done.stdout + done.stderr


def test_the_file_of_a_listener_that_is_missing_is_named(tmp_path: Path) -> None:
    """Of certificate, key and client authority the one that cannot be read."""
    trustme.CA().issue_cert("localhost").cert_chain_pems[0].write_to_path(tmp_path / "own.pem")
    tls = "{host: 127.0.0.1, port: 0, tls: {certificate: ../own.pem, key: gone.key}}"
    found = checks_of(tmp_path, CHANNEL.replace("{host: 127.0.0.1, port: 0}", tls), "--data", "data")
    assert "gone.key cannot be read (No such file or directory)" in found["certificate of a"]["found"]


TOLD = Abilities(stated=True, server="HAPI FHIR Server 8.8.0", operation="hapi.fhir.merge", if_match=False)


@pytest.mark.parametrize(
    ("abilities", "settings", "standing", "words"),
    [
        (replace(TOLD, provable=True), {}, CheckStatus.GOOD, "If-Match is tested with the first update"),
        (replace(TOLD, if_match=True), {}, CheckStatus.GOOD, "honours If-Match"),
        (replace(TOLD, if_match=True), {}, CheckStatus.GOOD, "offers no transactions: one request a resource"),
        (
            replace(TOLD, if_match=True, transaction=True), {}, CheckStatus.GOOD,
            "takes a visit and what it names as one",
        ),
        (replace(TOLD, if_match=True, transaction=True), {"bundle": "off"}, CheckStatus.GOOD, "(bundle: off)"),
        (TOLD, {}, CheckStatus.LOOK, "8.8.0 at http://x/R4; merges by $hapi.fhir.merge, as it lists; ignores"),
        (replace(TOLD, versioned=False), {}, CheckStatus.LOOK, "keeps no versions for If-Match"),
        (replace(TOLD, operation=""), {}, CheckStatus.LOOK, "lists no $merge: records are linked"),
        (replace(TOLD, operation=""), {"merge_strategy": "merge"}, CheckStatus.FIX, "lists no $merge"),
        (replace(TOLD, operation=""), {"merge_strategy": "link"}, CheckStatus.LOOK, "merges by link"),
        (
            replace(TOLD, if_match=True), {"merge_operation": "merge"}, CheckStatus.GOOD,
            "merges by $merge (merge_operation; the server lists $hapi.fhir.merge)",
        ),
        (
            replace(TOLD, if_match=True, update_create=False), {"create": "client-id"}, CheckStatus.FIX,
            "takes no ids of a client",
        ),
        (replace(TOLD, if_match=True), {"create": "client-id"}, CheckStatus.GOOD, "does not say whether it takes ids"),
        (
            replace(TOLD, if_match=True, update_create=True), {"create": "client-id"}, CheckStatus.GOOD,
            "creates by client-id",
        ),
        (replace(TOLD, if_match=True), {"create": "idempotency-key"}, CheckStatus.GOOD, "creates by idempotency-key"),
        (
            replace(TOLD, if_match=True, operation=""), {"writes": "create-only"}, CheckStatus.GOOD,
            "merges nothing (writes: create-only)",
        ),
    ],
)  # fmt: skip
def test_what_a_destination_is_told_to_do(
    abilities: Abilities, settings: dict[str, str], standing: CheckStatus, words: str
) -> None:
    """Both names of a merge are told, and a server that ignores If-Match is named; neither keeps the engine down."""
    found = check_of("destination x", Settings(name="x", base_url="http://x/R4", **settings), abilities)
    assert found.standing is standing
    assert words in found.found
    assert bool(found.do) is (standing is not CheckStatus.GOOD)


@pytest.mark.parametrize(
    ("settings", "server", "standing", "found", "do"),
    [
        ({}, "HAPI FHIR Server 8.2.0", CheckStatus.GOOD, "profile generic; it looks like HAPI FHIR JPA", ""),
        ({}, "adt-engine interchange 1.0.0", CheckStatus.LOOK, "profile generic; it looks like", "if_none_exist"),
        ({"profile": "shipped"}, "adt-engine interchange 1.0.0", CheckStatus.GOOD, "profile shipped", ""),
        ({"profile": "azure"}, "HAPI FHIR Server 8.2.0", CheckStatus.LOOK, "profile azure; it looks like", "hapi"),
        ({}, "Some server 1", CheckStatus.GOOD, "profile generic", ""),
    ],
)
def test_the_profile_of_a_server_is_guessed(
    settings: dict[str, str], server: str, standing: CheckStatus, found: str, do: str
) -> None:
    """By the name that it gives; it is to be looked at where the profile would change something, or is another's."""
    known = Abilities(stated=True, server=server, operation="merge", provable=True)
    check = check_of("destination x", Settings(name="x", base_url="http://x/R4", **settings), known)
    assert check.standing is standing
    assert found in check.found
    assert (do in check.do) if do else not check.do


def test_types_that_a_destination_does_not_list_are_told() -> None:
    """What the mappings of its channels send and it does not list is named, with what becomes of such messages."""
    told = replace(TOLD, if_match=True, transaction=True)
    found = check_of("destination x", Settings(name="x", base_url="http://x/R4"), told, lacking=("Appointment", "Task"))
    assert found.standing is CheckStatus.LOOK
    assert found.found.endswith("lists no Appointment, Task, which the mapping may send")
    assert "held" in found.do


@pytest.mark.parametrize(
    ("base", "settings", "standing", "words"),
    [
        (None, {}, CheckStatus.GOOD, "as one transaction"),
        ("http://x", {}, CheckStatus.GOOD, "looks patients up at http://x"),
        ("http://x/y", {"lookup_base_url": "http://x/y"}, CheckStatus.GOOD, "x/y (lookup_base_url, taken at its word)"),
        ("", {}, CheckStatus.LOOK, "lists no $p360-retrieve: nobody is looked up (lookup_on)"),
    ],
)
def test_whether_look_ups_work_is_told(
    base: str | None, settings: dict[str, str], standing: CheckStatus, words: str
) -> None:
    """Where a channel asks for them: the base that takes them, or that there is none and what to do."""
    told = replace(TOLD, if_match=True, transaction=True)
    found = check_of("destination x", Settings(name="x", base_url="http://x/R4", **settings), told, base)
    assert found.standing is standing
    assert found.found.endswith(words)
    assert bool(found.do) is (standing is not CheckStatus.GOOD)


@pytest.mark.parametrize(
    ("settings", "notices", "standing", "words"),
    [
        ({}, False, CheckStatus.GOOD, "as one transaction"),
        ({"notify": "admin-notify"}, True, CheckStatus.GOOD, "takes notices of ADT events, as it lists"),
        (
            {"notify": "admin-notify"},
            False,
            CheckStatus.LOOK,
            "lists no $process-message, so it may take no notices (notify)",
        ),
    ],
)
def test_whether_notices_are_taken_is_told(
    settings: dict[str, str], notices: bool, standing: CheckStatus, words: str
) -> None:
    """Where a destination is to be told of events: whether it lists the operation, and what to do where it does not."""
    told = replace(TOLD, if_match=True, transaction=True, notices=notices)
    found = check_of("destination x", Settings(name="x", base_url="http://x/R4", **settings), told)
    assert found.standing is standing
    assert found.found.endswith(words)
    assert bool(found.do) is (standing is not CheckStatus.GOOD)


async def test_the_destination_is_asked_where_a_channel_looks_up(tmp_path: Path) -> None:
    """The doctor finds the base above /R4; of a channel without `lookup_on` it says nothing."""
    server = await FakeFhir().start()
    server.lookup_paths = {"/fhir/DocumentReference/$p360-retrieve"}
    channel = CHANNEL.replace("http://127.0.0.1:9/fhir/R4", server.base)
    above = server.base.removesuffix("/R4")
    try:
        told = await asyncio.to_thread(checks_of, tmp_path, f"{channel}lookup_on: [A01]\n", "--data", "data")
        assert told["destination nowhere"]["found"].endswith(f"; looks patients up at {above}")
        told = await asyncio.to_thread(checks_of, tmp_path, channel, "--data", "data")
        assert "looks" not in told["destination nowhere"]["found"]
    finally:
        await server.stop()


def test_alive_asks_only_whether_the_engine_runs(tmp_path: Path) -> None:
    """Without an engine it fails in one line, as a container's health check needs it."""
    done = doctor(tmp_path, "--alive")
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "no engine answers on data\n")


def settings_of(base_url: str, **auth: object) -> Settings:
    """Return a destination with keys of `auth`."""
    keys = {"type": "client_credentials", "token_url": "https://auth.example/token", "client_id": "engine"}
    whole = keys | {"client_secret": {"env": "X"}, "scope": "system/*.*"} | auth
    return Settings.model_validate({"name": "x", "base_url": base_url, "auth": whole})


@pytest.mark.parametrize(
    ("codes", "found", "do"),
    [
        (("token-refused", "invalid_scope"), "the token server gives no scope system/*.*", "for the client engine"),
        (("token-refused", "invalid_target"), "knows no audience (none)", "correct audience"),
        (("token-refused", "invalid_client", "sign-in-clock-behind"), "this machine's clock is behind", "timedatectl"),
        (("token-refused", "invalid_client", "aadsts700027"), "does not know the certificate", "client engine"),
        (("token-refused", "invalid_client"), "refuses the client engine", "method: basic"),
        (("token-refused",), "does not say why", "see its log"),
        (("token-unavailable", "http-503"), "does not answer (http-503)", "token_url"),
        (("secret-unreadable",), "a secret of auth, headers or proxy_password cannot be read", "set it"),
        (("no-credentials",), "no AWS access key", "aws_profile"),
        (("http-403",), "allows no search of patients (403)", "scopes"),
        (("tls-certificate",), "tls-certificate", "start it"),
    ],
)
def test_why_a_sign_in_fails_is_said_in_words(codes: tuple[str, ...], found: str, do: str) -> None:
    """The most exact code decides; keys of `auth` are named with their values, secrets with neither."""
    words = refusal_of(settings_of("https://fhir.example/R4"), DestinationError(codes[0], codes=codes))
    assert found in words[0]
    assert do in words[1]


def test_a_metadata_service_that_gives_nothing_is_said() -> None:
    """It is the machine that has no identity; nobody can start its metadata service."""
    settings = Settings.model_validate(
        {"name": "x", "base_url": "https://x/R4", "auth": {"type": "managed_identity", "audience": "https://x"}}
    )
    words = refusal_of(settings, DestinationError("token-unavailable", codes=("token-unavailable", "http-404")))
    assert words == (
        "the metadata service of the cloud gives nothing (http-404)",
        "give the machine an identity or a role",
    )


def write_secret(file: Path) -> None:
    """Write what nothing may show."""
    file.touch(0o600)
    file.write_text("hush-SENTINEL")


async def test_the_sign_in_of_a_destination_is_tried(tmp_path: Path) -> None:
    """A server that shows its CapabilityStatement to all is asked for more; no secret is in what is printed."""
    server = await FakeFhir().start()
    write_secret(tmp_path / "secret")
    basic = ", auth: {type: basic, username: engine, password: {file: ../secret}}}"
    channel = CHANNEL.replace('"http://127.0.0.1:9/fhir/R4"}', f'"{server.base}"{basic}')
    try:
        told = await asyncio.to_thread(checks_of, tmp_path, channel, "--data", "data")
        assert told["destination nowhere"]["standing"] != "mend"
        server.script.append(Step("GET", 401, path="Patient"))
        told = await asyncio.to_thread(checks_of, tmp_path, channel, "--data", "data")
    finally:
        await server.stop()
    assert told["destination nowhere"]["standing"] == "mend"
    assert told["destination nowhere"]["found"] == f"{server.base}: the server refuses the sign-in (401)"
    assert server.requests[-1] == "GET Patient?identifier=urn:adt-engine|nobody&_count=1"
    assert "SENTINEL" not in str(told)


async def test_a_refused_token_is_said_and_no_secret(tmp_path: Path) -> None:
    """The token endpoint's word decides what is said; what else it answers is not shown."""
    server = await FakeFhir().start()
    server.token_answers.append((400, {"error": "invalid_scope", "error_description": "hush-SENTINEL"}))
    write_secret(tmp_path / "secret")
    url = server.base.replace("/fhir/R4", "/oauth/token")
    who = f"token_url: '{url}', client_id: e, client_secret: {{file: ../secret}}, scope: a/b"
    auth = f"auth: {{type: client_credentials, {who}}}"
    channel = CHANNEL.replace('"http://127.0.0.1:9/fhir/R4"}', f'"{server.base}", {auth}}}')
    try:
        told = await asyncio.to_thread(checks_of, tmp_path, channel, "--data", "data")
    finally:
        await server.stop()
    assert told["destination nowhere"]["found"] == f"{server.base}: the token server gives no scope a/b"
    assert "SENTINEL" not in str(told)
