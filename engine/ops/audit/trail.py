"""The audit trail as acts write it: who asks for what, on which entry and patient, before it is done.

Of what was given only names and numbers of ours are kept: values under the keys of SHOWN, and the mark of a patient.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from typing import Any, Final

import orjson

from engine.errors import JournalError, UnrecordedActError
from engine.journal.access import audit
from engine.journal.access.audit import AuditOutcome, AuditRecord
from engine.journal.journal import Journal
from engine.ops.access.actor import Actor
from engine.ops.access.keys import Keys
from engine.ops.access.role import Permission

# What is recorded before it is done; acts on METADATA and MAPPINGS change nothing and show nothing of a patient.
AUDITED: Final = frozenset(
    {Permission.PHI, Permission.OPERATE, Permission.CHANNELS, Permission.USERS, Permission.CARE, Permission.AUDIT}
)
_NAMES: Final = """
account act actor after before channel channels code control_id count days destination destinations dry_run element
entries event events expires field file filter folder force kind lane limit mode name outcome permission rate role run
reset since source state states to until upto wanted
"""
# Names, codes and moments of ours. What stands under any other key is kept by its name alone, as it may be a patient's.
SHOWN: Final = frozenset(_NAMES.split())
MOST_TEXT: Final = 200
MOST_NAME: Final = 40
MOST_KEYS: Final = 40
MOST_DEPTH: Final = 2
MOST_ITEMS: Final = 100
MOST_REASON: Final = 500


class Trail:
    """Writes the audit trail of one journal; every call returns once its row is durable."""

    def __init__(self, journal: Journal, keys: Keys, clock: Callable[[], datetime]) -> None:
        self._journal = journal
        self._keys = keys
        self._clock = clock

    async def ask(self, actor: Actor, act: str, given: Mapping[str, Any]) -> int:
        """Record that an act is about to be done and return the row's number.

        UnrecordedActError where it cannot be: then the act must not be done.
        """
        try:
            return await self._append(self._record(actor, act, given), _entries(given))
        except JournalError as error:
            raise UnrecordedActError(
                f"{act} was not done, because the audit trail cannot be written: see the engine's log and its disk"
            ) from error

    async def end(self, row: int, actor: Actor, act: str, error: Exception, outcome: AuditOutcome) -> None:
        """Record that what was asked in a row came to nothing; a journal that has failed meanwhile is left alone."""
        record = self._record(actor, act, {}, outcome, type(error).__name__, row)
        await self._quietly(record)

    async def refuse(self, actor: Actor, act: str, given: Mapping[str, Any], error: Exception) -> None:
        """Record that an act was refused before anything was done."""
        record = self._record(actor, act, given, AuditOutcome.REFUSED, type(error).__name__)
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
            """The engine stops for this, and says so in its log; the error that is told is the act's own."""

    def _record(
        self,
        actor: Actor,
        act: str,
        given: Mapping[str, Any],
        outcome: AuditOutcome = AuditOutcome.ASKED,
        reason: str = "",
        follows: int | None = None,
    ) -> AuditRecord:
        entry, patient, why = given.get("entry"), given.get("patient"), given.get("reason")
        shown = {name: value for name, value in given.items() if name not in {"entry", "reason"}}
        return AuditRecord(
            self._clock(),
            actor.name,
            actor.role.value,
            actor.via,
            act,
            actor.address,
            entry if _is_number(entry) else None,
            outcome,
            reason or (why[:MOST_REASON] if isinstance(why, str) else ""),
            _json(shown_of(shown)),
            self._keys.marks(patient) if isinstance(patient, str) and patient else (),
            follows,
        )


def shown_of(given: Mapping[str, Any], depth: int = MOST_DEPTH) -> dict[str, Any]:
    """Return what of a request may stand in the audit trail; what may not stands under `given` by its key.

    It is bounded whatever was given: in keys, items, characters and depth.
    """
    shown: dict[str, Any] = {}
    hidden: list[str] = []
    for name, value in list(given.items())[:MOST_KEYS]:
        if value is None or value in ("", [], {}):
            continue
        kept = _kept(value, depth) if name in SHOWN or isinstance(value, bool) else None
        if kept is None:
            hidden.append(name[:MOST_NAME])
        else:
            shown[name[:MOST_NAME]] = kept
    return shown | {"given": hidden} if hidden else shown


def _kept(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return value[:MOST_TEXT]
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**63 else None
    if isinstance(value, float):
        return value
    if isinstance(value, Mapping) and depth:
        return shown_of(value, depth - 1)
    if isinstance(value, list | tuple) and all(isinstance(one, str | int) for one in value):
        kept = [_kept(one, 0) for one in value[:MOST_ITEMS]]
        return kept if None not in kept else None
    return None


def _entries(given: Mapping[str, Any]) -> tuple[int, ...]:
    several = given.get("entries")
    listed = several[:MOST_ITEMS] if isinstance(several, list) else []
    return tuple(one for one in (given.get("entry"), *listed) if _is_number(one))


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**63


def _json(value: Mapping[str, Any]) -> str:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS, default=str).decode()
