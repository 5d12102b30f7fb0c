"""The service's file read again: what is wrong, and what cannot change while it runs, come in one answer."""

import pytest

from engine.config.service import ServiceConfiguration, reread
from engine.config.source import parse, validate
from engine.errors import ConfigurationError

TEXT = """\
environment: sandbox
base_url: https://cdis.example
service_identifier_system: https://cdis.example
tenants: {riverbend: {}, lakeside: {}}
"""


def test_a_mistake_hides_no_change_that_needs_a_restart() -> None:
    """A misspelt key, a wrong value, another address and a tenant gone are told at once; a guess is no change."""
    running = validate(parse(TEXT, "i.yaml"), ServiceConfiguration)
    text = TEXT.replace("base_url: https://cdis.example", "base_url: cdis").replace(", lakeside: {}", "")
    wrong = f"{text}max_connection: 9\nmax_body_bytes: 1\n"
    with pytest.raises(ConfigurationError) as raised:
        reread(parse(wrong, "i.yaml"), running)
    assert {problem.path for problem in raised.value.problems} == {
        "base_url",
        "tenants",
        "max_connection",
        "max_connections",
        "max_body_bytes",
    }
    assert [problem.found for problem in raised.value.problems if problem.path == "base_url"] == ["found 'cdis'"]
