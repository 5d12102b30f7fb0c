import os
from pathlib import Path

import pytest

from engine.config.secret import Secret


def test_a_secret_by_environment_is_read_on_each_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """A changed variable is seen at the next use; an absent one is named."""
    secret = Secret(env="RIVERBEND_SECRET")
    monkeypatch.setenv("RIVERBEND_SECRET", "one")
    assert secret.read() == "one"
    monkeypatch.setenv("RIVERBEND_SECRET", "two")
    assert secret.read() == "two"
    monkeypatch.delenv("RIVERBEND_SECRET")
    with pytest.raises(LookupError, match="RIVERBEND_SECRET is not set"):
        secret.read()


def test_a_secret_by_file_is_stripped_and_may_rotate(tmp_path: Path) -> None:
    """A file's text is read without its last line end, anew on each use."""
    path = tmp_path / "secret"
    path.touch(mode=0o600)
    path.write_text("one\n")
    secret = Secret(file=str(path))
    assert secret.read() == "one"
    path.write_text("two\n")
    assert secret.read() == "two"


def test_a_secret_file_that_others_may_read_is_refused(tmp_path: Path) -> None:
    """A file open to group or others gives no secret; the error says what to do and not what stands in it."""
    path = tmp_path / "secret"
    path.write_text("swordfish")
    path.chmod(0o640)
    with pytest.raises(LookupError, match="chmod 600") as raised:
        Secret(file=str(path)).read()
    assert "swordfish" not in str(raised.value)


def test_a_secret_file_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only files of the engine's own user, or of root, are trusted."""
    path = tmp_path / "secret"
    path.touch(mode=0o600)
    if os.getuid() == 0:
        os.chown(path, 12345, -1)
    else:
        monkeypatch.setattr(os, "getuid", lambda: 12345)
    with pytest.raises(LookupError, match="belongs to another user"):
        Secret(file=str(path)).read()


def test_an_absent_secret_file_is_named(tmp_path: Path) -> None:
    """A file that is not there is named with the reason."""
    with pytest.raises(LookupError, match="nowhere cannot be read"):
        Secret(file=str(tmp_path / "nowhere")).read()


@pytest.mark.parametrize(("held", "said"), [(b" \n", "secret is empty"), (b"sword\xfffish", "secret holds bytes")])
def test_a_secret_file_without_a_usable_text_is_named(tmp_path: Path, held: bytes, said: str) -> None:
    """An empty file and one that is no text are named, and nothing of what stands in them is."""
    path = tmp_path / "secret"
    path.touch(mode=0o600)
    path.write_bytes(held)
    with pytest.raises(LookupError, match=said) as raised:
        Secret(file=str(path)).read()
    assert "fish" not in f"{raised.value!r} {raised.value.__cause__!r}"
