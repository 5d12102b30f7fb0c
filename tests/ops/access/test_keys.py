"""The key file: made once for its owner only, and never used where others could read it."""

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from engine.errors import StartError
from engine.ops.access.keys import FILE, KEY_BYTES, Keys


def test_it_is_made_once_and_for_its_owner_only(tmp_path: Path) -> None:
    """A second start draws the same keys from it."""
    first = Keys.of(tmp_path)
    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600
    assert len((tmp_path / FILE).read_bytes()) == KEY_BYTES
    assert first.csrf("cookie") == Keys.of(tmp_path).csrf("cookie")
    assert [file.name for file in tmp_path.iterdir()] == [FILE]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_file_that_others_may_read_is_refused(tmp_path: Path, mode: int) -> None:
    """The error names the file and what to do."""
    Keys.of(tmp_path)
    (tmp_path / FILE).chmod(mode)
    with pytest.raises(StartError, match="chmod 600"):
        Keys.of(tmp_path)


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    """Everybody could guess that key."""
    (tmp_path / FILE).touch(0o600)
    with pytest.raises(StartError, match="empty"):
        Keys.of(tmp_path)


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """The error names the file."""
    with pytest.raises(StartError, match=r"access\.key"):
        Keys.of(tmp_path / "nowhere")


def test_marks_find_a_patient_by_number_and_by_system(tmp_path: Path) -> None:
    """A mark tells nothing without the key; one number in two systems has one mark in common."""
    keys, others = Keys.of(tmp_path), Keys(b"x" * 32)
    here, there = keys.marks("https://a|4711"), keys.marks("https://b|4711")
    assert len(here) == 2
    assert set(here) & set(there) == set(keys.marks("4711"))
    assert not set(here) & set(others.marks("https://a|4711"))
    assert all("4711" not in mark for mark in here)


def test_what_is_sealed_opens_for_its_account_with_its_key_only(tmp_path: Path) -> None:
    """Anything else opens to nothing."""
    keys = Keys.of(tmp_path)
    sealed = keys.seal("ann", "SECRET")
    assert keys.unseal("ann", sealed) == "SECRET"
    assert sealed != keys.seal("ann", "SECRET")
    for name, given in (("bob", sealed), ("ann", sealed[:-1]), ("ann", b""), ("ann", b"short")):
        assert keys.unseal(name, given) == ""
    assert Keys(b"x" * 32).unseal("ann", sealed) == ""


def test_of_many_who_make_it_at_once_all_have_the_same(tmp_path: Path) -> None:
    """The engine and a command may start in the same moment."""
    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(lambda _n: Keys.of(tmp_path).csrf("cookie"), range(32)))
    assert len(set(made)) == 1
    assert [file.name for file in tmp_path.iterdir()] == [FILE]
