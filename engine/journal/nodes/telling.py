"""What nodes tell each other by the journal: how each finds things to be, and which of them carries a bulk replay out.

Each function works on the writing connection of a shared journal: hand it to `Journal.write` or `Journal.read`.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple

from engine.database.connection import Connection
from engine.journal.moment import from_micros

# How a node finds something to be, in place of what it said of it before.
SAY: Final = """
INSERT INTO node_condition (incarnation, kind, subject, wrong, detail) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (incarnation, kind, subject) DO UPDATE SET wrong = excluded.wrong, detail = excluded.detail
"""
# What nodes said that are no more.
UNSAY: Final = "DELETE FROM node_condition WHERE incarnation NOT IN (SELECT incarnation FROM node WHERE state = 'live')"
# What the nodes say.
SAID: Final = """
SELECT n.name, c.kind, c.subject, c.wrong, c.detail FROM node_condition AS c
JOIN node AS n ON n.incarnation = c.incarnation WHERE n.state = 'live' ORDER BY c.kind, c.subject, n.name
"""
# The nodes, and a digest of what each runs.
CONFIGURATIONS: Final = "SELECT name, configuration FROM node WHERE state = 'live' ORDER BY name"
# The nodes that ended without saying so within a day, and have not come back under their name.
LOST: Final = """
SELECT n.name, n.ended_at FROM node AS n WHERE n.state = 'expired' AND n.ended_at > moment() - 86400000000
AND NOT EXISTS (SELECT 1 FROM node AS later WHERE later.name = n.name AND later.incarnation > n.incarnation)
ORDER BY n.name
"""
# Carry a bulk replay out, unless a node that lives does.
TAKE_RUN: Final = """
INSERT INTO node_run (run, incarnation) VALUES (?, ?)
ON CONFLICT (run) DO UPDATE SET incarnation = excluded.incarnation
WHERE node_run.incarnation NOT IN (SELECT incarnation FROM node WHERE state = 'live')
  OR node_run.incarnation = excluded.incarnation
RETURNING run
"""


class NodeCondition(NamedTuple):
    """The condition of one alert subject at one node; `wrong`: it fails there."""

    node: str
    kind: str
    subject: str
    wrong: bool
    detail: str


def say(connection: Connection, incarnation: int, found: Sequence[tuple[str, str, bool, str]]) -> None:
    """Keep how a node finds things to be: kind, subject, whether it is wrong, and a detail."""
    connection.executemany(
        SAY, [(incarnation, kind, subject, int(wrong), text) for kind, subject, wrong, text in found]
    )
    connection.execute(UNSAY)


def said(connection: Connection) -> tuple[NodeCondition, ...]:
    """Return what the nodes that live say, by kind and subject."""
    rows = connection.execute(SAID).fetchall()
    return tuple(NodeCondition(node, kind, subject, bool(wrong), detail) for node, kind, subject, wrong, detail in rows)


def configurations(connection: Connection) -> dict[str, str]:
    """Return the digest of what each node that lives runs, by its name."""
    return dict(connection.execute(CONFIGURATIONS).fetchall())


def lost(connection: Connection) -> dict[str, datetime]:
    """Return when the others took each node for dead that ended within a day, by its name; a node that is back not."""
    return {name: from_micros(ended) for name, ended in connection.execute(LOST).fetchall()}


def take_run(connection: Connection, run: int, incarnation: int) -> bool:
    """Take on a bulk replay; False where another node that lives carries it out."""
    return connection.execute(TAKE_RUN, (run, incarnation)).fetchone() is not None
