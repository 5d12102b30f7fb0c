"""Passwords of users: argon2id hashes, made and checked (RFC 9106)."""

import unicodedata
from typing import Final

from argon2 import PasswordHasher
from argon2.exceptions import Argon2Error, InvalidHashError

# Second recommended option of RFC 9106 section 4: 64 MiB, 3 passes.
HASHER: Final = PasswordHasher()
# NIST SP 800-63B section 5.1.1.1.
SHORTEST_PASSWORD: Final = 8
# What nobody's password makes: checked where there is no such user, so that the answer takes as long.
NOBODY: Final = "$argon2id$v=19$m=65536,t=3,p=4$CrbMgJ74t8wHV14eMrZETA$pKYIG1wCKPy80xUzTabJkEUXJ1OH151Qw2/rNBKdTIM"


def hash_password(password: str) -> str:
    """Return the argon2id hash of a password, with a salt of its own."""
    return HASHER.hash(_plain(password))


def is_password(hashed: str, password: str) -> bool:
    """Say whether a password is the one that was hashed; takes some 50 ms of a core on purpose."""
    try:
        return HASHER.verify(hashed, _plain(password))
    except (Argon2Error, InvalidHashError):
        return False


def _plain(password: str) -> bytes:
    # Keyboards differ in how they compose a letter with its accents.
    return unicodedata.normalize("NFKC", password).encode("utf-8", "replace")
