"""The verdict on one delivery and what it is made of: values only, for the spine to journal and act on."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Final, NamedTuple

from engine.errors import InvolvedRecord
from engine.fhir.plan import Identity
from engine.http.request import HttpRequest

# What an identifier may be to its record, other than `current`.
OLD: Final = "old"
MERGED_AWAY: Final = "merged-away"
CHOSEN: Final = "chosen"
CONFIRMED: Final = "confirmed"
# A number that is so known need not be its record's any more.
OUT_OF_USE: Final = frozenset({OLD, MERGED_AWAY})


class VerdictKind(StrEnum):
    """What becomes of an entry at one destination."""

    DELIVERED = "delivered"
    RETRY = "retry"
    HELD = "held"
    REJECTED = "rejected"
    FILTERED = "filtered"


class Failure(StrEnum):
    """What kind of failure it was; that alone decides what follows."""

    NONE = ""
    TRANSIENT = "transient"
    AMBIGUOUS = "ambiguous"
    PERMANENT = "permanent"
    DESTINATION = "destination"


@dataclass(frozen=True, slots=True, repr=False)
class HttpAttempt:
    """A request and what came of it; `status` is 0 where no answer came.

    `body` is the answer's, kept of refusals and previews: a write that succeeded is known by its request. A preview and
    a read that failed are attempts, too. `journaled`: its intent was in the journal before it was sent; of others the
    request is written with what came of it.
    """

    request: HttpRequest
    status: int
    codes: tuple[str, ...]
    failure: Failure
    milliseconds: float
    body: bytes
    journaled: bool = True


@dataclass(frozen=True, slots=True, repr=False)
class KnownIdentifier:
    """An identifier and its record: `current`, `old` or `merged-away` (then `survivor` is an id).

    `chosen`: an operator chose this one of several records for it; `confirmed` once that record bore it.
    """

    identity: Identity
    logical_id: str
    status: str = "current"
    survivor: str = ""


@dataclass(frozen=True, slots=True)
class Owned:
    """What one source owns of a resource (`Patient/<id>`) now: digests by slice, complete."""

    resource: str
    source: str
    slices: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True, repr=False)
class Merged:
    """A merge that the destination has carried out."""

    source: Identity
    survivor: Identity


@dataclass(frozen=True, slots=True)
class Inherited:
    """What was listed within one record (`Patient/1`) is listed within another from now on: a merge moved it there."""

    gone: str
    survivor: str


class WrittenVersion(NamedTuple):
    """A version that a delivery has written: `Patient/1`, version, and when by the server's clock, if it says that.

    The version is '' for a deletion whose answer names none.
    """

    reference: str
    version: str
    at: datetime | None


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a delivery ended: `reason` and `notes` are codes, `applied` says whether the server now holds the event.

    `known`, `owned`, `merges` and `inherited` are to be remembered whatever the kind: they tell of steps that were
    carried out.
    `dry_run`: of an entry in shadow (filtered), what its dry run found, as JSON. `unasked`: it was reached without an
    answer of the destination, and says nothing of it. `patient` and `visit`: the records that a delivered plan's
    patient and the visit of that are now. `involved`: the records that a hold is about, as its error has them.
    `versions`: what was written, as far as the server's answers say.
    """

    kind: VerdictKind
    reason: str
    notes: tuple[str, ...] = ()
    failure: Failure = Failure.NONE
    retry_after_seconds: float = 0.0
    attempts: tuple[HttpAttempt, ...] = ()
    known: tuple[KnownIdentifier, ...] = ()
    owned: tuple[Owned, ...] = ()
    merges: tuple[Merged, ...] = ()
    applied: bool = False
    inherited: tuple[Inherited, ...] = ()
    dry_run: bytes = b""
    unasked: bool = False
    patient: str = ""
    visit: str = ""
    involved: tuple[InvolvedRecord, ...] = field(default=(), repr=False)
    versions: tuple[WrittenVersion, ...] = ()

    @property
    def wrote(self) -> bool:
        """Whether the destination has taken a write for it, or all that may be asked of it was answered (a shadow)."""
        if self.kind is VerdictKind.FILTERED:
            return not self.unasked
        return self.kind is VerdictKind.DELIVERED and any(attempt.failure is Failure.NONE for attempt in self.attempts)

    def noting(self, *codes: str) -> "Verdict":
        """Return the verdict with more notes, each once."""
        return replace(self, notes=tuple(dict.fromkeys((*self.notes, *codes))))
