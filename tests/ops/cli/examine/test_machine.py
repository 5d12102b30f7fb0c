"""What the doctor says of a machine."""

from pathlib import Path

from engine.ops.cli.examine.check import CheckStatus
from engine.ops.cli.examine.machine import machine


def test_this_machine_is_looked_at_whole(tmp_path: Path) -> None:
    """Every check says what it found, and names a next step where it is not good."""
    checks = {one.what: one for one in machine(tmp_path / "data", 64)}
    assert {"SQLite", "data folder", "disk", "file system", "clock", "open files"} <= set(checks)
    assert checks["SQLite"].standing is CheckStatus.GOOD
    assert checks["data folder"].standing is CheckStatus.GOOD
    assert all(check.do for check in checks.values() if check.standing is not CheckStatus.GOOD)


def test_a_folder_that_others_may_read_is_to_be_fixed(tmp_path: Path) -> None:
    """The command that fixes it stands beside it."""
    tmp_path.chmod(0o755)
    (found,) = (one for one in machine(tmp_path, 0) if one.what == "data folder")
    assert (found.standing, found.do) == (CheckStatus.FIX, f"chmod 700 {tmp_path}")


def test_too_few_open_files_are_told_with_the_number_that_is_needed(tmp_path: Path) -> None:
    """Ten million connections are more than any machine allows."""
    (found,) = (one for one in machine(tmp_path, 10_000_000) if one.what == "open files")
    assert found.standing is CheckStatus.FIX
    assert "LimitNOFILE=10000256" in found.do
