"""Passwords: their length and what is guessed first count; hashing is dear, bounded, and off the loop."""

import asyncio
import threading
from pathlib import Path

import pytest
from argon2 import PasswordHasher, extract_parameters

from engine.security import passwords
from engine.security.passwords import (
    MOST_WAITING,
    NOBODY,
    BusyError,
    Passwords,
    hash_password,
    is_password,
    no_account,
    weakness,
)


def test_the_hash_is_argon2id_with_64_mib_and_three_passes() -> None:
    """The parameters are those of the requirement; the hash that nobody has costs as much."""
    real = PasswordHasher(time_cost=3, memory_cost=65_536, parallelism=1)
    said = Path(passwords.__file__).read_text(encoding="utf-8")
    assert "time_cost=3, memory_cost=65_536, parallelism=1" in said
    nobody = said.split('NOBODY: Final = "')[1].split('"')[0]
    assert extract_parameters(nobody) == extract_parameters(real.hash("x"))


@pytest.mark.parametrize(
    ("password", "why"),
    [
        pytest.param("fourteen chars", "15", id="short"),
        pytest.param("", "15", id="empty"),
        pytest.param("x" * 257, "256", id="long"),
        pytest.param("aaaaaaaaaaaaaaaaaaaa", "repeats", id="one character"),
        pytest.param("abababababababab", "repeats", id="two characters"),
        pytest.param("0123456789012345", "counts", id="digits in order"),
        pytest.param("abcdefghijklmnopq", "counts", id="letters in order"),
        pytest.param("passwordpassword", "first", id="a word twice"),
        pytest.param("Password-2026-2026!", "first", id="a word with a year"),
        pytest.param("welcome hospital admin", "first", id="words of the list"),
        pytest.param("ann.ann.ann.2026", "first", id="the own name"),
        pytest.param("12345 12345 12345 678", "first", id="few digits"),
    ],
)
def test_what_is_guessed_first_is_refused(password: str, why: str) -> None:
    """The sentence says what would do."""
    assert why in weakness(password, "ann", totp=False)


@pytest.mark.parametrize(
    "password",
    [
        "nine blue herons over riverbend",
        "x7Kq!pWz93#vLm2",
        "korrektes pferd batterie",
        "пароль из пяти слов",
        "8301 5529 6473 1046",
    ],
)
def test_long_ones_of_any_kind_are_taken(password: str) -> None:
    """There are no rules on kinds of characters."""
    assert weakness(password, "ann", totp=False) == ""


def test_with_a_second_factor_eight_characters_will_do() -> None:
    """Seven will not."""
    assert weakness("blue-her", "ann", totp=True) == ""
    assert "8" in weakness("blue-he", "ann", totp=True)


async def test_letters_are_the_same_however_they_are_composed() -> None:
    """A password typed on another keyboard is still the password."""
    room = Passwords()
    hashed = await room.hash("Zürich in the rain of june")
    assert await room.check(hashed, "Zu\u0308rich in the rain of june")
    assert not await room.check(hashed, "Zurich in the rain of june")
    assert not await room.check("", "Zurich in the rain of june")
    assert not await room.check("no hash", "anything")
    assert not await room.check(hashed, "x" * 1_000_000)


async def test_hashing_takes_a_thread_two_at_a_time_and_few_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """The event loop goes on meanwhile; a flood of log-ins takes neither all threads nor all memory."""
    room, gate = Passwords(), threading.Event()
    seen: list[str] = []

    def slow(_hashed: str, _password: str) -> bool:
        seen.append(threading.current_thread().name)
        gate.wait(60)
        return True

    monkeypatch.setattr(passwords, "is_password", slow)
    checks = [asyncio.ensure_future(room.check("hash", "x")) for _ in range(MOST_WAITING + 3)]
    async with asyncio.timeout(60):
        while len(seen) < 2:  # noqa: ASYNC110 - the threads know no event of the loop
            await asyncio.sleep(0.001)
    assert threading.main_thread().name not in seen
    assert len(seen) == 2
    gate.set()
    done = await asyncio.gather(*checks, return_exceptions=True)
    assert done.count(True) == MOST_WAITING
    assert sum(isinstance(one, BusyError) for one in done) == 3
    assert await room.check("hash", "x")


def test_a_hash_of_other_parameters_stays_valid() -> None:
    """Four lanes were those of the service's users; an unknown user costs what the known ones do."""
    older = PasswordHasher(time_cost=1, memory_cost=64, parallelism=4).hash("nine blue herons")
    assert is_password(older, "nine blue herons")
    assert not is_password(older, "nine blue heron")
    assert extract_parameters(no_account(["!", older])) == extract_parameters(older)
    assert not is_password(no_account(["!", older]), "")
    assert no_account(["!"]) == NOBODY


def test_accents_however_they_are_typed() -> None:
    """One letter with its accent or two characters: it is the same password; a broken hash is nobody's."""
    assert is_password(hash_password("ze\u0301ro-zero"), "z\u00e9ro-zero")
    assert not is_password("$argon2id$broken", "zero")
