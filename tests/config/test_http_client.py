"""Fixed headers, proxies and rates of a destination: what is refused, where, and that nothing secret is shown."""

from pathlib import Path
from typing import Final

import pytest

from engine.config.channel import Channel
from engine.config.channels import read_channels
from engine.config.http_client import OWN_HEADERS
from engine.config.source import Looked, look, parse

SENTINEL: Final = "SENTINEL-of-config"
BEGIN: Final = """channel: a
listen: {mllp: {port: 2575}}
destinations:
  - name: x
    base_url: https://fhir.example/R4
"""


def of(text: str) -> Looked[Channel]:
    """Read a channel file whose destination has some more lines."""
    return look(parse(BEGIN + "".join(f"    {line}\n" for line in text.splitlines()), "a.yaml"), Channel)


def problem_of(text: str, path: str, ask: str = "") -> tuple[str, str]:
    """Return what is said of the one problem there is, which stands at a path."""
    looked = of(text)
    (problem,) = looked.ask(ask) if ask else looked.problems
    assert problem.path == f"destinations.0.{path}"
    assert SENTINEL not in str(problem)
    return problem.found, problem.expected


@pytest.mark.parametrize("name", [*OWN_HEADERS, "x-amz-date", "X-AMZ-Security-Token"])
def test_what_the_engine_sends_itself_is_refused(name: str) -> None:
    """In any spelling, with the reason, at its place."""
    for spelling in (name, name.title(), name.upper()):
        found, expected = problem_of(f"headers:\n  {spelling}: {SENTINEL}", f"headers.{spelling}")
        assert (found, expected.partition(":")[0]) == (f"found '{spelling}'", "leave it out")


def test_every_header_that_delivery_writes_is_refused() -> None:
    """A header of the engine's own that is missing in the table would be sent twice."""
    written = set()
    for file in Path("engine/deliver").rglob("*.py"):
        text = file.read_text("utf-8")
        written |= {name for name in KNOWN if f'"{name}"' in text or f'"{name}: ' in text}
    assert {"If-Match", "Prefer", "Content-Type"} <= written
    assert {name for name in written if name.lower() not in OWN_HEADERS} == set()


KNOWN: Final = (
    *("Accept", "Accept-Encoding", "Authorization", "Cache-Control", "Connection", "Content-Type", "Date", "Host"),
    *("If-Match", "If-Modified-Since", "If-None-Exist", "If-None-Match", "Prefer", "User-Agent", "X-Request-Id"),
)


@pytest.mark.parametrize("name", ["'X Y'", "'X:Y'", "X(Y)", "Ünd", "''", '"X\\r\\nY"', "X" * 101])
def test_a_name_is_a_token(name: str) -> None:
    """RFC 9110, 5.6.2."""
    (problem,) = of(f"headers:\n  {name}: x").problems
    assert "X-Tenant" in problem.expected


@pytest.mark.parametrize("value", ['"a\\r\\nX: y"', '"a\\0"', '"é"', "''", '" a"', '"a "', "a" * 4097, '"a\\x7f"'])
def test_a_value_is_one_line_of_ascii(value: str) -> None:
    """RFC 9110, 5.5; it is not shown, as it may be a secret."""
    text = value.replace("a", SENTINEL, 1)
    found, _expected = problem_of(f"headers:\n  X-Key: {text}", "headers.X-Key")
    assert found == "a text that no header can have"


def test_values_are_texts_or_secrets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Numbers are texts; a reference is read when it is used, and shown to nobody."""
    file = tmp_path / "key"
    file.write_text(SENTINEL)
    file.chmod(0o600)
    monkeypatch.setenv("KEY", SENTINEL)
    looked = of(f"headers:\n  X-Tenant: 12\n  X-One: {{env: KEY}}\n  X-Two: {{file: {file}}}")
    assert looked.problems == ()
    assert looked.value
    headers = looked.value.destinations[0].headers
    assert [value.read() for value in headers.values()] == ["12", SENTINEL, SENTINEL]
    assert SENTINEL not in repr(looked.value) + looked.value.model_dump_json()


def test_a_secret_that_no_header_can_have_is_found_by_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the first message, and without showing it."""
    monkeypatch.setenv("KEY", f"{SENTINEL}\r\nX: y")
    assert problem_of("headers: {X-Key: {env: KEY}}", "headers.X-Key.env", "unavailable")[0].startswith("it holds")


def test_two_spellings_of_a_header_are_one() -> None:
    """Names know no case."""
    assert "each header once" in problem_of("headers: {X-A: x, x-a: y}", "headers")[1]


def test_a_credential_in_the_file_is_doubted() -> None:
    """It is allowed, as a name may mislead."""
    assert problem_of(f"headers: {{X-Api-Key: {SENTINEL}}}", "headers.X-Api-Key", "warnings")[1].startswith("refer to")


@pytest.mark.parametrize(
    ("text", "path", "expected"),
    [
        (f"proxy: http://u:{SENTINEL}@h:1", "proxy", "use proxy_user and proxy_password"),
        ("proxy: https://h:1", "proxy", "http:// with host and port"),
        ("proxy: socks5://h:1", "proxy", "http:// with host and port"),
        ("proxy: http://h", "proxy", "http:// with host and port"),
        ("proxy: http://h:1/path", "proxy", "http:// with host and port"),
        ("proxy: http://h:99999", "proxy", "http:// with host and port"),
        ("proxy: environ", "proxy", "environment"),
        ("proxy: http://h:1\nproxy_user: u", "proxy_password", "add it"),
        ("proxy: http://h:1\nproxy_password: {env: P}", "proxy_user", "add it"),
        (f"proxy: http://h:1\nproxy_user: u\nproxy_password: {SENTINEL}", "proxy_password", "refer to it"),
        ("proxy: http://h:1\nproxy_user: 'u:v'\nproxy_password: {env: P}", "proxy_user", "without a colon"),
        ("proxy_user: u\nproxy_password: {env: P}", "proxy", "add it"),
        ("client_key: a.pem", "client_certificate", "add it"),
        ("client_certificate: a.pem", "client_key", "add it"),
        ("rate: {burst: 2}", "rate.requests_per_second", "add it"),
    ],
)
def test_what_is_refused_says_what_would_do(text: str, path: str, expected: str) -> None:
    """At the key that is wrong or missing."""
    assert expected in problem_of(text, path)[1]


def test_proxies_of_the_environment_are_checked_where_they_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable of another kind of proxy is named, without what it holds."""
    monkeypatch.delenv("https_proxy", raising=False)
    monkeypatch.setenv("HTTPS_PROXY", f"socks5://u:{SENTINEL}@h:1")
    assert "HTTPS_PROXY" in problem_of("proxy: environment", "proxy", "unavailable")[0]
    assert list(of("proxy: http://h:1").ask("unavailable")) == []


@pytest.mark.parametrize(
    ("first", "second", "path"),
    [
        ("{X-Tenant: north}", "{X-Tenant: south}", "X-Tenant.text"),
        ("{X-Tenant: north}", "{}", "X-Tenant"),
        ("{}", "{X-Tenant: north}", "X-Tenant"),
    ],
)
def test_one_destination_has_one_set_of_headers(tmp_path: Path, first: str, second: str, path: str) -> None:
    """Two channels that describe it otherwise are told where."""
    for number, headers in enumerate((first, second)):
        text = BEGIN.replace("channel: a", f"channel: c{number}").replace("2575", f"257{number}")
        (tmp_path / f"c{number}.yaml").write_text(f"{text}    headers: {headers}\n")
    _read, problems = read_channels(tmp_path)
    assert [problem.path for problem in problems] == [f"destinations.0.headers.{path}"]
    assert problems[0].line >= 4
