"""The key file as the journal knows it: one that is missing, or another, is never made up for in silence.

With another key all second factors are void, and the audit trail finds no patient of before.
"""

from functools import partial
from pathlib import Path
from typing import Final

from engine.database.connection import Connection
from engine.errors import StartError
from engine.journal.journal import Journal
from engine.ops.access.keys import FILE, Keys

# What marks the key that a journal is used with.
MARK: Final = "SELECT mark FROM key_mark WHERE id = 1"
# A journal is used with a key from now on.
KEEP: Final = "INSERT INTO key_mark (id, mark) VALUES (1, ?) ON CONFLICT (id) DO UPDATE SET mark = excluded.mark"
# Whether anything was made with a key in a journal of before such marks: accounts, or rows of the audit trail.
IS_USED: Final = "SELECT EXISTS (SELECT 1 FROM account) OR EXISTS (SELECT 1 FROM audit)"
OPTION: Final = "--accept-new-access-key"
WAYS: Final = (
    f"restore it from where it is kept safe (of several nodes: from another one's data folder), or start once with "
    f"{OPTION}: second factors have to be set up again, and `audit list --patient` finds nothing of before"
)


async def keys_of(journal: Journal, folder: Path, *, accept_new: bool = False) -> Keys:
    """Return the keys of a data folder, which are those that its journal is used with; a new journal takes any.

    StartError where the file is missing, or holds another key, unless a new one is accepted.
    """
    mark, is_used = await journal.read(_known)
    if is_used and not accept_new and not (folder / FILE).exists():
        raise StartError(f"{folder / FILE} is missing, and the journal was used with it: {WAYS}")
    keys = Keys.of(folder)
    if mark and mark != keys.mark and not accept_new:
        raise StartError(f"{folder / FILE} holds another key than the journal was used with: {WAYS}")
    if mark != keys.mark:
        await journal.write(partial(_keep, mark=keys.mark))
    return keys


def _known(connection: Connection) -> tuple[str, bool]:
    row = connection.execute(MARK).fetchone()
    if row is not None:
        return str(row[0]), True
    return "", bool(connection.execute(IS_USED).fetchone()[0])


def _keep(connection: Connection, mark: str) -> None:
    connection.execute(KEEP, (mark,))
