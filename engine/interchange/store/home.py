"""Whose a database is: the environment of the first service that used it."""

from typing import Final

from engine.database.connection import Connection
from engine.errors import StartError

SETTLE: Final = "INSERT INTO home (one, environment) VALUES (1, ?) ON CONFLICT (one) DO NOTHING"
SETTLED: Final = "SELECT environment FROM home"


def settle(connection: Connection, environment: str, shown: str) -> None:
    """Let a database belong to an environment, '' for any; StartError where it belongs to another."""
    if not environment:
        return
    connection.execute(SETTLE, (environment,))
    owner = connection.execute(SETTLED).fetchone()[0]
    if owner != environment:
        raise StartError(
            f"the database {shown} belongs to {owner}, and this is {environment}: name another with --database"
        )
