"""Passwords: what may be one (NIST SP 800-63B-4 section 3.1.1.2), and their argon2id hashes (RFC 9106)."""

import asyncio
import re
import unicodedata
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Final, TypeVar

from argon2 import PasswordHasher
from argon2.exceptions import Argon2Error, InvalidHashError

SHORTEST: Final = 15
SHORTEST_WITH_TOTP: Final = 8
LONGEST: Final = 256
# What one hash takes is 64 MiB and some 0.1 s of a core: two at a time, and few that wait.
AT_ONCE: Final = 2
MOST_WAITING: Final = 16
HASHER: Final = PasswordHasher(time_cost=3, memory_cost=65_536, parallelism=1)
# The hash of no account: checked where there is no such account, so that the answer takes as long.
NOBODY: Final = "$argon2id$v=19$m=65536,t=3,p=1$FbOyCD6wlE8xDEvhtcx1ow$pKTvXrj4LNN5U3EWQ1mf9qgM33cufTy6d/QH2+N17pY"
# Words that stand at the top of every list of stolen passwords, and those that this place suggests.
_WORDS: Final = """
password passwort passwrd pssword psswrd admin administrator root user guest test welcome letmein login qwerty
qwertyuiop qwertz asdfgh asdfghjkl zxcvbn zxcvbnm iloveyou monkey dragon football baseball superman batman
master sunshine princess shadow secret changeme default hospital clinic patient health medical doctor nurse
engine adt adtengine interface fhir mirth summer winter spring autumn abc abcd abcdef abcdefgh
"""
_STEMS: Final = frozenset(_WORDS.split())
_COST: Final = re.compile(r"m=\d+,t=\d+,p=\d+")
_LETTERS: Final = re.compile(r"[^\W\d_]+")
_DISTINCT: Final = 5

_T = TypeVar("_T")


class BusyError(Exception):
    """Too many passwords are being checked at this moment."""


class Passwords:
    """Hashes and checks passwords in threads, two at a time; BusyError where too many wait already."""

    def __init__(self) -> None:
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._waiting = 0

    async def hash(self, password: str) -> str:
        """Return the argon2id hash of a password, with a salt of its own."""
        return await self._in_turn(lambda: hash_password(password))

    async def check(self, hashed: str, password: str) -> bool:
        """Say whether a password is the one that was hashed; an empty hash is nobody's, and takes as long."""
        good = await self._in_turn(lambda: is_password(hashed or NOBODY, password))
        return good and bool(hashed)

    async def _in_turn(self, work: Callable[[], _T]) -> _T:
        if self._waiting >= MOST_WAITING:
            raise BusyError
        self._waiting += 1
        try:
            async with self._turns:
                return await asyncio.to_thread(work)
        finally:
            self._waiting -= 1


def weakness(password: str, account: str, *, totp: bool) -> str:
    """Return why a password cannot be chosen, as a sentence for people; empty where it can.

    Only length and what is guessed first count; there are no rules on kinds of characters.
    """
    shortest = SHORTEST_WITH_TOTP if totp else SHORTEST
    plain = unicodedata.normalize("NFKC", password)
    if len(plain) < shortest:
        return f"A password needs at least {shortest} characters: a few words in a row are easy to remember."
    if len(plain) > LONGEST:
        return f"A password has at most {LONGEST} characters."
    folded = plain.casefold()
    words = {word for word in _LETTERS.findall(folded) if len(word) > 1}
    if len(set(folded)) < _DISTINCT or _is_run(folded):
        return "This password repeats itself, or counts up or down: choose one that nobody would try first."
    if words <= _STEMS | _repeated(words) | {account.casefold()} and not _is_random(folded):
        return "This password is made of words that are tried first: choose others."
    return ""


def hash_password(password: str) -> str:
    """Return the argon2id hash of a password, with a salt of its own."""
    return HASHER.hash(_plain(password))


def is_password(hashed: str, password: str) -> bool:
    """Say whether a password is the one that was hashed, with the parameters in the hash."""
    try:
        return HASHER.verify(hashed, _plain(password))
    except (Argon2Error, InvalidHashError):
        return False


def no_account(hashes: Iterable[str]) -> str:
    """Return the hash of no account, which costs what the first of these hashes costs, else what a new one does."""
    cost = next((found[0] for text in hashes if (found := _COST.search(text))), None)
    return NOBODY if cost is None else _COST.sub(cost, NOBODY)


def _plain(password: str) -> bytes:
    # Keyboards differ in how they compose a letter with its accents.
    return unicodedata.normalize("NFKC", password).encode("utf-8", "replace")


def _is_run(text: str) -> bool:
    """Say whether the characters count up or down, as in 0123456789 or zyxwv."""
    steps = {ord(after) - ord(before) for before, after in pairwise(text)}
    return steps <= {1, -9} or steps <= {-1, 9}


def _repeated(words: set[str]) -> set[str]:
    """Return the words that are a word of the list several times over."""
    return {word for word in words if any(word == stem * (len(word) // len(stem)) for stem in _STEMS)}


def _is_random(text: str) -> bool:
    """Say whether a text without words of its own is digits and signs that do not merely repeat."""
    return not any(len(word) > 1 for word in _LETTERS.findall(text)) and len(set(text)) >= 2 * _DISTINCT
