"""The page on relays: its example does what is shown."""

import re
import shlex
from pathlib import Path
from typing import Final

from tests.interchange.nursery import ran

ROOT: Final = Path(__file__).resolve().parents[3]
EXAMPLE: Final = re.compile(
    r"`([^`]+)`:\n\n```yaml\n(.*?)```\n+```sh\nadt-engine (.*?)\n```\n```text\n(.*?)```", re.DOTALL
)


def test_the_shown_edit_prints_what_is_shown(tmp_path: Path) -> None:
    """The channel file as it stands, tried by the command below it."""
    file, text, command, shown = EXAMPLE.findall((ROOT / "engine/ops/docs/relay.md").read_text("utf-8"))[0]
    (tmp_path / file).parent.mkdir()
    (tmp_path / file).write_text(text)
    (tmp_path / "samples").symlink_to(ROOT / "samples")
    done = ran(*shlex.split(command), folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == shown
