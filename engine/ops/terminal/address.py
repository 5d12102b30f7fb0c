"""Addresses of databases as people give them to a command."""

from typing import Final

from engine.errors import UsageError

SCHEMES: Final = ("postgresql://", "postgres://")


def database_address(option: str, given: str) -> str:
    """Return the address of a PostgreSQL database; UsageError for another one's, or one with a password in it."""
    account = given.partition("://")[2].partition("@")[0] if "@" in given else ""
    if not given.startswith(SCHEMES):
        raise UsageError(f"{option}: expected postgresql://USER@HOST/NAME")
    if ":" in account or "password=" in given:
        raise UsageError(
            f"{option} holds a password, which others on this machine can read: give it by PGPASSWORD or PGPASSFILE"
        )
    return given
