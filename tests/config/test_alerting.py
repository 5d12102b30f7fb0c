"""`alerts.yaml`: what may stand there, and to which addresses alerts are never sent."""

from pathlib import Path

import pytest

from engine.config.alerting import Alerting, look_at_alerting
from engine.errors import ConfigurationError


def load(folder: Path, text: str) -> Alerting:
    """Write and read an alerts.yaml."""
    (folder / "alerts.yaml").write_text(text)
    looked = look_at_alerting(folder)
    if looked.problems or looked.value is None:
        raise ConfigurationError(looked.problems)
    return looked.value


def test_without_a_file_the_defaults_hold(tmp_path: Path) -> None:
    """Nothing has to be written."""
    assert look_at_alerting(tmp_path).value == Alerting()


def test_one_channel_may_be_otherwise(tmp_path: Path) -> None:
    """What is not said of it is as for all."""
    found = load(tmp_path, "no_traffic_minutes: 20\nchannels: {night: {no_traffic_minutes: 0}}\n")
    assert (found.no_traffic_of("night"), found.no_traffic_of("day"), found.no_sender_of("night")) == (0, 20, 60)
    assert Alerting().no_traffic_of("any") is None


@pytest.mark.parametrize(
    "url",
    [
        "http://alerts.example/hook",
        "https://169.254.169.254/latest/meta-data",
        "https://0.0.0.0/hook",
        "https://user:word@alerts.example/hook",
        "https:///hook",
        "file:///etc/passwd",
        "ftp://alerts.example/",
    ],
)
def test_alerts_go_to_https_only(tmp_path: Path, url: str) -> None:
    """Plain http is for this machine; user names, link-local and unspecified addresses are refused."""
    with pytest.raises(ConfigurationError) as raised:
        load(tmp_path, f"webhook: {{url: '{url}'}}\n")
    assert raised.value.problems[0].path == "webhook.url"


@pytest.mark.parametrize("url", ["https://alerts.example/hook?room=7", "http://127.0.0.1:9/hook", "https://10.1.2.3/h"])
def test_a_hook_of_the_house_is_taken(tmp_path: Path, url: str) -> None:
    """The file is an administrator's: an address of the house's own network may stand in it."""
    found = load(tmp_path, f"webhook: {{url: '{url}', token: {{env: HOOK}}}}\n")
    assert found.webhook is not None
    assert found.webhook.url == url
