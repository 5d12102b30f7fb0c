"""Every error of adt-engine, one tree; nothing here imports anything of ours.

AdtEngineError
├── MessageError                   a message or a part of it
│   ├── UnreadableMessageError         no MSH, or one that cannot be used
│   ├── UndecodableMessageError        bytes that are not of the declared character set
│   ├── MessageLimitError              more segments or repetitions than allowed
│   ├── EditError                      an edit that cannot be made
│   ├── PathError                      a path that is not of the path grammar
│   └── TimestampError                 a timestamp that is not of the DTM grammar
├── BlockError                     the MLLP stream
│   └── BlockTooLargeError             a block over the channel's limit
├── ConfigurationError             authored files, every problem at once
├── MappingError                   a mapping that meets what it cannot map
├── JournalError                   the durable record
│   ├── JournalUnusableError           cannot be opened: permissions, old SQLite, newer schema, second writer
│   ├── JournalFailedError             an I/O error while running: stop, never go on
│   ├── JournalRefusedError            its database refuses a statement: version, rights, tables
│   ├── DiskReserveError               the disk is too full to accept more
│   ├── ClockAheadError                retention that would go by a clock far ahead
│   ├── CopyError                      a journal that cannot be copied to another database
│   ├── BackupError                    a backup that cannot be made, or has no place
│   │   └── UnsoundBackupError             one that does not prove sound
│   └── SealError                      a sealed body that was changed, or whose key is gone
├── RefusedOperationError          what people ask of entries and cannot have: the asker's fault
│   ├── ForbiddenMoveError             a state move that is not in the table
│   ├── UnknownEntryError              no such entry
│   └── UnknownRunError                no such bulk replay
├── DeliveryError                  a destination
│   ├── TransientDeliveryError         surely not applied: try again
│   ├── AmbiguousDeliveryError         perhaps applied: read before writing again
│   ├── PermanentDeliveryError         refused: hold
│   ├── HeldDeliveryError              a person must decide
│   ├── RejectedDeliveryError          the message asks for what must not be done (a self-merge)
│   └── DestinationError               token, permission, TLS: the whole destination pauses
├── StartError                     the process cannot start: port in use, folder not writable
├── UnreachableError               nobody answers at the far end of an MLLP line
├── ServiceError                   the interchange service's answer that is no success
├── WorkerError                    the process beside the engine is busy, took too long, or ended
├── UsageError                     a command was given what it cannot use
│   └── MalformedRequestError          a name that a request does not have, or a value of another type
├── AccessError                    an account or token that cannot be made or changed
├── UnrecordedOperationError       the audit trail cannot be written: nothing was done
└── ForbiddenOperationError        the role may not do what it asks
    └── UnconfirmedOperationError      the password must be typed again first
"""

import traceback
from pathlib import Path
from typing import NamedTuple


class AdtEngineError(Exception):
    """Something in adt-engine went wrong."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message or (self.__doc__ or "").strip().splitlines()[0])


class MessageError(AdtEngineError):
    """The message cannot be used as it is."""


class UnreadableMessageError(MessageError):
    """The message has no usable MSH segment."""


class UndecodableMessageError(MessageError):
    """The message holds bytes that are not of its character set."""


class MessageLimitError(MessageError):
    """The message has more parts than the channel allows."""


class PathError(MessageError):
    """The path is not of the form PID-3(2).4.1."""


class EditError(MessageError):
    """The message cannot be edited so."""


class TimestampError(MessageError):
    """The timestamp is not of the form YYYY[MM[DD[HH[MM[SS[.S]]]]]][+/-ZZZZ]."""


class BlockError(AdtEngineError):
    """The MLLP stream does not hold whole blocks."""


class BlockTooLargeError(BlockError):
    """The block is larger than the channel allows."""


class Problem(NamedTuple):
    """One fault in an authored file; lines and columns count from 1."""

    file: str
    line: int
    column: int
    path: str
    found: str
    expected: str

    def __str__(self) -> str:
        where = f" {self.path}:" if self.path else ""
        return f"{self.file}:{self.line}:{self.column}:{where} {self.found}; {self.expected}"


class ConfigurationError(AdtEngineError):
    """Authored files cannot be used; every problem is listed."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = problems


MOST_TOLD = 3


def brief(error: AdtEngineError) -> str:
    """Return an error in a line for whoever is called at night: of authored files the first problems, and how many."""
    problems = error.problems if isinstance(error, ConfigurationError) else ()
    if not problems:
        return str(error)
    rest = len(problems) - MOST_TOLD
    return "; ".join(map(str, problems[:MOST_TOLD])) + (f"; and {rest} more" if rest > 0 else "")


class EventError(AdtEngineError):
    """What came as an event of a FHIR server is none; its text is a reason code and holds nothing of a patient."""


class MappingError(AdtEngineError):
    """The mapping meets a message that it cannot map; `reason` is a code, never a value of the message."""

    def __init__(self, reason: str, location: str = "") -> None:
        super().__init__(f"{reason} at {location}" if location else reason)
        self.reason = reason
        self.location = location


class JournalError(AdtEngineError):
    """The journal cannot do what was asked."""


class JournalUnusableError(JournalError):
    """The journal cannot be opened."""


class JournalFailedError(JournalError):
    """The journal met an I/O error and takes nothing more."""


class LeaseLostError(JournalFailedError):
    """Other nodes have taken this one for dead, and what it had under way over: it goes on as a new one."""


class CommitInDoubtError(JournalError):
    """The connection broke before a commit was answered: nobody is answered before it is known what became of it."""


class JournalAwayError(JournalError):
    """The journal's database cannot be reached at the moment; nothing new is accepted until it can."""

    def __init__(self) -> None:
        super().__init__("the journal's database cannot be reached: see that it runs, and the network to it")


class JournalRefusedError(JournalError):
    """The journal's database refuses a statement; `code` is what it calls that, never what the statement held."""

    def __init__(self, code: str) -> None:
        super().__init__(
            f"the journal's database refuses a statement ({code}): `adt-engine doctor` names a version that does not "
            "go with this adt-engine, or a right that its role lacks; mend that, then try again"
        )
        self.code = code


class DiskReserveError(JournalError):
    """The disk is too full to accept more messages."""


class ClockAheadError(JournalError):
    """The clock is so many days beyond all that the journal knows: by it, what is not old would be taken away."""

    def __init__(self, days: int) -> None:
        super().__init__(
            f"the clock is {days} days beyond the last time that is known, so nothing is taken away: mend it, or "
            "acknowledge the alert `clock-ahead` if it is right (the engine was off for long)"
        )


class CopyError(JournalError):
    """The journal cannot be copied."""


class BackupError(JournalError):
    """The backup cannot be made or brought back."""


class UnsoundBackupError(BackupError):
    """A backup does not prove sound; `finding` is the first fault of it."""

    def __init__(self, path: Path, finding: str) -> None:
        super().__init__(f"{path} is not sound: {finding}; take another backup")
        self.finding = finding


class SealError(JournalError):
    """What is sealed cannot be read."""


class RefusedOperationError(AdtEngineError):
    """What is asked of an entry or a bulk replay cannot be done; the journal itself is well."""


class ForbiddenMoveError(RefusedOperationError):
    """An entry cannot go from its state to the one asked for."""


class UnknownEntryError(RefusedOperationError):
    """There is no such entry in the journal."""


class UnknownRunError(RefusedOperationError):
    """There is no such bulk replay in the journal."""


class DeliveryError(AdtEngineError):
    """A destination did not take what was sent; `status` is 0 where no answer came, `codes` are outcome codes."""

    def __init__(
        self, message: str = "", *, status: int = 0, codes: tuple[str, ...] = (), retry_after_seconds: float = 0.0
    ) -> None:
        super().__init__(message)
        self.status = status
        self.codes = codes
        self.retry_after_seconds = retry_after_seconds


class TransientDeliveryError(DeliveryError):
    """The destination surely did not apply the request; it may be tried again."""


class InterruptedDeliveryError(TransientDeliveryError):
    """A connection to the destination was lost since it was read, and nothing was sent: it may have gone back."""


class AmbiguousDeliveryError(DeliveryError):
    """The destination may have applied the request; read before writing again."""


class PermanentDeliveryError(DeliveryError):
    """The destination refused the request for good."""


# A record that a hold is about: reference, what it is in this, its numbers (`system|value`), who it is of.
InvolvedRecord = tuple[str, str, tuple[str, ...], str]


class HeldDeliveryError(DeliveryError):
    """A person must decide; `reason` is a code, never a value of the message.

    `involved`: the records in question. These are of patients: they are kept as bodies are, and stand in no text.
    """

    def __init__(
        self,
        reason: str,
        *,
        status: int = 0,
        codes: tuple[str, ...] = (),
        involved: tuple[InvolvedRecord, ...] = (),
    ) -> None:
        super().__init__(reason, status=status, codes=codes)
        self.reason = reason
        self.involved = involved


class RejectedDeliveryError(DeliveryError):
    """The message asks for what must not be done; `reason` is a code, `involved` is as of HeldDeliveryError."""

    def __init__(self, reason: str, *, involved: tuple[InvolvedRecord, ...] = ()) -> None:
        super().__init__(reason, codes=(reason,))
        self.reason = reason
        self.involved = involved


class DestinationError(DeliveryError):
    """The destination as a whole cannot be used: token, permission or TLS."""


class UnreadServerError(DeliveryError):
    """The server of an event does not say now what that refers to: it is asked again later."""


class StartError(AdtEngineError):
    """The process cannot start."""


class UnreachableError(AdtEngineError):
    """Nobody answers at the far end of the line."""


class ServiceError(AdtEngineError):
    """The interchange service answers with an OperationOutcome."""


class WorkerError(AdtEngineError):
    """The process beside the engine is busy, took too long, or ended."""


class UsageError(AdtEngineError):
    """The command was given something it cannot use."""


class MalformedRequestError(UsageError):
    """The request has a name that is none of its fields, or a value of another type."""


class AccessError(AdtEngineError):
    """The account or token cannot be made or changed."""


class UnrecordedOperationError(AdtEngineError):
    """The audit trail cannot be written, and so nothing was done."""


class ForbiddenOperationError(AdtEngineError):
    """The role may not do that."""


class UnconfirmedOperationError(ForbiddenOperationError):
    """The password must be typed again first."""


def place_of(error: BaseException) -> str:
    """Return where an error was raised, as `module:line`; its text is left out, as it may hold anything."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{Path(frames[-1].filename).stem}:{frames[-1].lineno}" if frames else ""
