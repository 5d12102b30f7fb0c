"""Sealed continuations: opened by who made them, for what they were made for, until their moment (C-217, C-218)."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.interchange.kernel.outcome import Category, RefusedError
from engine.interchange.kernel.seal import seal, unseal
from engine.interchange.store.store import Store
from tests.interchange.kit import Inside

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SECRET = b"of the tests"
BOUND = ("cursor", "riverbend", "R4", "Patient")
parts = st.lists(st.text(max_size=20) | st.integers(-(2**53), 2**53), max_size=4).map(tuple)


def refusal(text: str, secret: bytes = SECRET, bound: tuple[str | int, ...] = BOUND, now: int = 0) -> RefusedError:
    """Return the refusal of a continuation."""
    with pytest.raises(RefusedError) as told:
        unseal(secret, bound, text, now, "http._cursor")
    assert told.value.issues[0].location == "http._cursor"
    return told.value


@given(bound=parts, payload=parts, expires=st.integers(0, 2**53))
def test_what_was_sealed_opens(bound: tuple[str | int, ...], payload: tuple[str | int, ...], expires: int) -> None:
    """A continuation opens with what it was made from, up to its last millisecond."""
    text = seal(SECRET, bound, payload, expires)
    assert unseal(SECRET, bound, text, expires, "http._cursor") == payload
    assert text.replace("-", "").replace("_", "").isalnum()
    assert refusal(text, bound=bound, now=expires + 1).category is Category.GONE


def test_every_change_is_refused() -> None:
    """C-218: no character can be changed, left out or added, not even one that encodes the same bytes."""
    text = seal(SECRET, BOUND, (4711,), 9)
    others = {text[:at] + other + text[at + 1 :] for at in range(len(text)) for other in "AQgw-_ =\u00e9"} - {text}
    for changed in (*others, "", "=", text[:-1], f"{text}A", f"{text}=", f"{text}\n", f" {text}", "\ud800"):
        assert refusal(changed).category is Category.BAD_VALUE


@pytest.mark.parametrize("bound", [BOUND[:3], (*BOUND, ""), ("everything", *BOUND[1:]), ("cursorriverbend",)])
def test_nothing_else_opens(bound: tuple[str, ...]) -> None:
    """A continuation of another tenant, version, type or use is refused as a changed one, even when it has expired."""
    assert refusal(seal(SECRET, BOUND, (1,), 9), bound=bound, now=10).category is Category.BAD_VALUE


def test_another_secret_opens_nothing() -> None:
    """A continuation of another service is refused."""
    assert refusal(seal(SECRET, BOUND, (1,), 9), secret=b"another").category is Category.BAD_VALUE


def test_a_secret_is_made_once(tmp_path: Path) -> None:
    """The first process on a database makes the secret; it survives a restart, and others beside it get the same."""
    path = tmp_path / "s.db"
    first = Store(path, [], lambda: NOW, {})
    beside = Store(path, [], lambda: NOW, {}, alone=False)
    assert first.secret("seal", b"one") == beside.secret("seal", b"two") == b"one"
    assert first.secret("other", b"three") == b"three"
    first.close()
    beside.close()
    again = Store(path, [], lambda: NOW, {})
    assert again.secret("seal", b"four") == b"one"
    again.close()


def test_the_service_does_not_show_its_secret(inside: Inside) -> None:
    """The secret stands in no repr."""
    secret = inside.app.service.seal_secret
    assert len(secret) >= 32
    assert secret.decode() not in repr(inside.app.service)
