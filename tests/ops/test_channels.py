import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from engine.config.shipped import shipped
from engine.errors import ConfigurationError
from engine.ops.channels import app


def test_the_shipped_channel_is_checked_and_listed() -> None:
    """A good folder is said to be good, and its channels are listed for people and for programs."""
    folder = str(shipped("channels"))
    assert "1 channel in" in CliRunner().invoke(app, ["check", "--channels", folder]).stdout
    assert "riverbend-adt" in CliRunner().invoke(app, ["list", "--channels", folder]).stdout
    (row,) = json.loads(CliRunner().invoke(app, ["list", "--channels", folder, "--json"]).stdout)
    assert (row["listens_on"], row["destinations"], row["allow_merge"]) == ("127.0.0.1:2575", ["interchange"], True)


@pytest.mark.parametrize("command", ["check", "list"])
def test_a_bad_file_is_a_configuration_error(tmp_path: Path, command: str) -> None:
    """Problems reach `main`, which prints them all and ends with exit 2."""
    (tmp_path / "a.yaml").write_text("channel: a\n")
    result = CliRunner().invoke(app, [command, "--channels", str(tmp_path)])
    assert isinstance(result.exception, ConfigurationError)
    assert len(result.exception.problems) == 2
