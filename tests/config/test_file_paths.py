"""Paths in authored files: a relative one starts at the file that names it, wherever the engine is started."""

from pathlib import Path
from typing import Final

import pytest

from engine.config.alerting import look_at_alerting
from engine.config.channels import load_channels, read_channels
from engine.config.service import ServiceConfiguration
from engine.config.source import look, scan

CHANNEL: Final = """channel: riverbend
listen:
  mllp: {{host: 127.0.0.1, port: 0, tls: {{certificate: {0}a.pem, key: {0}a.key, client_ca: {0}ca.pem}}}}
timezone: UTC
destinations:
  - name: fhir
    base_url: https://fhir.example
    ca_file: {0}fhir.pem
    auth: {{type: bearer, token: {{file: {0}token}}}}
"""
SERVICE: Final = """environment: production
base_url: https://cdis.example
service_identifier_system: https://cdis.example
tls: {{certificate: {0}b.pem, key: {0}b.key}}
webhooks: {{ca_bundle: {0}hooks.pem}}
tenants:
  riverbend:
    network_mode: real
    connectors:
      pine: {{type: fhir, url: "https://a.example", ca_file: {0}pine.pem,
              auth: {{token_url: "https://a.example/t", client_id: me, client_secret: {{file: {0}pine}}}}}}
      gateway: {{type: directory, folder: {0}documents}}
    laboratories:
      one: {{connector: {{type: hl7, host: lab.example, port: 1, tls: true,
                         ca_file: {0}lab-ca.pem, certificate: {0}lab.pem, key: {0}lab.key}}}}
      two: {{connector: {{type: directory, folder: {0}orders}}}}
clients:
  engine: {{tenant: riverbend, secret: {{file: {0}engine}}}}
  app: {{tenant: riverbend, jwks: {{file: {0}keys.json}}}}
"""


def _named(folder: Path) -> set[str]:
    """Return what the check names of the files of a channel folder and a service, of which none is there."""
    read, _ = read_channels(folder / "channels")
    alerts = look_at_alerting(folder / "channels")
    service = look(scan(folder / "service/interchange.yaml"), ServiceConfiguration)
    problems = [*read[0].ask("unavailable"), *alerts.ask("unavailable"), *service.ask("unavailable")]
    assert not read[0].problems + alerts.problems + service.problems
    return {problem.found.split(" ")[0] for problem in problems}


def _written(folder: Path, prefix: str) -> None:
    (folder / "channels").mkdir()
    (folder / "service").mkdir()
    (folder / "channels/riverbend.yaml").write_text(CHANNEL.format(prefix))
    (folder / "channels/alerts.yaml").write_text(
        f"webhook: {{url: https://a.example, ca_file: {prefix}hook.pem, token: {{file: {prefix}hook}}}}\n"
    )
    (folder / "service/interchange.yaml").write_text(SERVICE.format(prefix))


OF_CHANNELS: Final = ("a.pem", "a.key", "ca.pem", "fhir.pem", "token", "hook.pem", "hook")
OF_SERVICE: Final = (
    *("b.pem", "b.key", "hooks.pem", "pine.pem", "pine", "documents", "lab-ca.pem", "lab.pem", "lab.key", "orders"),
    *("engine", "keys.json"),
)


@pytest.mark.parametrize("prefix", ["", "../tls/", "./"])
def test_a_relative_path_starts_at_the_file_that_names_it(tmp_path: Path, prefix: str) -> None:
    """Every secret, key, certificate and folder; the check names the path that was looked for."""
    _written(tmp_path, prefix)
    expected = {str(tmp_path / "channels" / f"{prefix}{name}") for name in OF_CHANNELS}
    expected |= {str(tmp_path / "service" / f"{prefix}{name}") for name in OF_SERVICE}
    assert _named(tmp_path) == expected


def test_an_absolute_path_stays(tmp_path: Path) -> None:
    """Wherever the file is that names it."""
    _written(tmp_path, "/no/such/")
    assert _named(tmp_path) == {f"/no/such/{name}" for name in (*OF_CHANNELS, *OF_SERVICE)}


def test_a_secret_beside_its_file_is_read_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the folder is named relative to the working directory, which may have a file of that name, too."""
    _written(tmp_path, "")
    for folder, text in ((tmp_path, "wrong"), (tmp_path / "channels", "right")):
        (folder / "token").write_text(text)
        (folder / "token").chmod(0o600)
    monkeypatch.chdir(tmp_path)
    for named in (Path("channels"), tmp_path / "channels"):
        token = load_channels(named)[0].destinations[0].auth.token
        assert token is not None
        assert token.read() == "right"
