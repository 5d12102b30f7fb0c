"""The audit trail as operations write it: who asks for what, on which entry and patient, before it is done.

Of what was given only what its field is marked for is kept; of a field without a mark, and of a name that is no field,
the name alone: it may be a patient's.
"""

import re
from collections import OrderedDict
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from datetime import datetime
from enum import StrEnum
from functools import partial
from typing import Final

import orjson

from engine.errors import JournalError, UnrecordedOperationError
from engine.journal.access import audit
from engine.journal.access.audit import AuditOutcome, AuditRecord
from engine.journal.journal import Journal
from engine.ops.access.actor import Actor, Permission
from engine.ops.access.keys import Keys

# What is recorded before it is done; operations on METADATA and MAPPINGS change nothing and show nothing of a patient.
AUDITED: Final = frozenset(
    {
        Permission.PHI,
        Permission.OPERATE,
        Permission.CHANNELS,
        Permission.USERS,
        Permission.CARE,
        Permission.AUDIT,
        Permission.PUBLISH,
    }
)
MOST_TEXT: Final = 200
MOST_NAME: Final = 40
MOST_KEYS: Final = 40
MOST_ITEMS: Final = 100
MOST_REASON: Final = 500
# The names that are kept of edited files: anything else in their place may hold anything.
_FILE: Final = re.compile(r"[A-Za-z0-9_./-]{1,120}\.yaml")


class Audited(StrEnum):
    """What the trail keeps of a field: its value, the names in it, a patient's mark, the entry it is about, why."""

    VALUE = "value"
    NAMES = "names"
    PATIENT = "patient"
    ENTRY = "entry"
    ENTRIES = "entries"
    REASON = "reason"


Marks = Mapping[str, "Audited | Marks"]


class AuditTrail:
    """Writes the audit trail of one journal; every call returns once its row is durable."""

    def __init__(self, journal: Journal, keys: Keys, clock: Callable[[], datetime]) -> None:
        self._journal = journal
        self._keys = keys
        self._clock = clock

    async def ask(self, actor: Actor, act: str, given: Mapping[str, object], marks: Marks) -> int:
        """Record that an operation is about to be done and return the row's number.

        UnrecordedOperationError where it cannot be: then it must not be done.
        """
        try:
            return await self._append(self._record(actor, act, given, marks), _entries(given, marks))
        except JournalError as error:
            raise UnrecordedOperationError(
                f"{act} was not done, because the audit trail cannot be written: see the engine's log and its disk"
            ) from error

    async def end(self, row: int, actor: Actor, act: str, error: Exception, outcome: AuditOutcome) -> None:
        """Record that what was asked in a row came to nothing; a journal that has failed meanwhile is left alone."""
        record = self._record(actor, act, {}, {}, outcome, type(error).__name__, row)
        await self._quietly(record)

    async def refuse(self, actor: Actor, act: str, given: Mapping[str, object], marks: Marks, error: Exception) -> None:
        """Record that an operation was refused before anything was done."""
        record = self._record(actor, act, given, marks, AuditOutcome.REFUSED, type(error).__name__)
        await self._quietly(record)

    async def note(self, act: str, **detail: str | int) -> None:
        """Record what the engine itself did: it started, it stopped."""
        record = AuditRecord(self._clock(), "adt-engine", "", "engine", act, detail=_json(detail))
        await self._append(record)

    async def _append(self, record: AuditRecord, entries: tuple[int, ...] = ()) -> int:
        work = partial(audit.append, record=record, marks=self._keys.marks, entries=entries)
        return await self._journal.write(work)

    async def _quietly(self, record: AuditRecord) -> None:
        try:
            await self._append(record)
        except JournalError:
            """The engine stops for this, and says so in its log; the error that is raised is the operation's own."""

    def _record(
        self,
        actor: Actor,
        act: str,
        given: Mapping[str, object],
        marks: Marks,
        outcome: AuditOutcome = AuditOutcome.ASKED,
        reason: str = "",
        follows: int | None = None,
    ) -> AuditRecord:
        about = {mark: given[name] for name, mark in marks.items() if isinstance(mark, Audited) and name in given}
        entry, patient, why = (about.get(mark) for mark in (Audited.ENTRY, Audited.PATIENT, Audited.REASON))
        return AuditRecord(
            self._clock(),
            actor.name,
            actor.role.value,
            actor.via,
            act,
            actor.address,
            _number(entry),
            outcome,
            reason or (why[:MOST_REASON] if isinstance(why, str) else ""),
            _json(recorded(given, marks, {Audited.ENTRY, Audited.REASON})),
            self._keys.marks(patient) if isinstance(patient, str) and patient else (),
            follows,
        )


def recorded(
    given: Mapping[str, object], marks: Marks, elsewhere: AbstractSet[Audited] = frozenset()
) -> dict[str, object]:
    """Return what of a request the audit trail may hold; a field that it may not is listed under `given` by its name.

    It is bounded whatever was given: in keys, items and characters. What has a column `elsewhere` is left out.
    """
    kept: dict[str, object] = {}
    hidden: list[str] = []
    for name, value in list(given.items())[:MOST_KEYS]:
        mark = marks.get(name)
        if value is None or value in ("", [], {}) or (isinstance(mark, Audited) and mark in elsewhere):
            continue
        found = _kept(value, mark)
        if found is None:
            hidden.append(name[:MOST_NAME])
        else:
            kept[name[:MOST_NAME]] = found
    return kept | {"given": hidden} if hidden else kept


def _kept(value: object, mark: Audited | Marks | None) -> object:
    """Return what is kept of a value; None for nothing."""
    if isinstance(mark, Mapping):
        return recorded(value, mark) if isinstance(value, Mapping) else None
    if mark is Audited.NAMES:
        named = list(value)[:MOST_ITEMS] if isinstance(value, Mapping) else [""]
        return [name[:MOST_TEXT] for name in named] if all(map(_FILE.fullmatch, named)) else None
    if mark not in {Audited.VALUE, Audited.ENTRIES}:
        return None
    if isinstance(value, list | tuple):
        kept = [_plain(one) for one in value[:MOST_ITEMS]]
        return kept if None not in kept else None
    return value if isinstance(value, float) else _plain(value)


def _plain(value: object) -> str | int | None:
    if isinstance(value, str):
        return value[:MOST_TEXT]
    return value if isinstance(value, int) and -(2**63) <= value < 2**63 else None


def _entries(given: Mapping[str, object], marks: Marks) -> tuple[int, ...]:
    found: list[object] = []
    for name, mark in marks.items():
        value = given.get(name)
        found += [value] if mark is Audited.ENTRY else ()
        found += value[:MOST_ITEMS] if mark is Audited.ENTRIES and isinstance(value, list) else ()
    return tuple(number for one in found if (number := _number(one)) is not None)


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**63 else None


def _json(value: Mapping[str, object]) -> str:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS, default=str).decode()


MOST_LOGINS: Final = 1_000
MOST_PATIENTS: Final = 20_000


class Looks:
    """The patients that each log-in has looked at since the engine started.

    What is forgotten, by a restart or beyond the bounds, is recorded once more: a look is never left out.
    """

    def __init__(self) -> None:
        self._seen: OrderedDict[str, set[int]] = OrderedDict()

    def unseen(self, login: str, patients: Mapping[int, tuple[int, ...]]) -> list[int]:
        """Return the entries with a patient whom a log-in has not looked at.

        `patients`: the lanes of each entry's patients; an entry that names none is one by itself.
        """
        seen = self._seen.get(login, set())
        return [entry for entry, lanes in patients.items() if not _marks(entry, lanes) <= seen]

    def note(self, login: str, patients: Mapping[int, tuple[int, ...]]) -> None:
        """Keep that a log-in has looked at the patients of entries, once that is on record."""
        seen = self._seen.setdefault(login, set())
        self._seen.move_to_end(login)
        if len(seen) > MOST_PATIENTS:
            seen.clear()
        seen.update(*(_marks(entry, lanes) for entry, lanes in patients.items()))
        while len(self._seen) > MOST_LOGINS:
            self._seen.popitem(last=False)


def _marks(entry: int, lanes: tuple[int, ...]) -> set[int]:
    return set(lanes) or {-entry}
