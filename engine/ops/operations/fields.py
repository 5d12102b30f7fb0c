"""The fields of requests: numbers, times, words and switches, each read in one way wherever a request comes from.

A text of the terminal or of an address is a number in plain digits only; from JSON a number is one without a fraction,
and not true or false. Each type also says what the audit trail keeps of it; a field of a type that says nothing leaves
its name.
"""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Annotated, Final

from pydantic import BeforeValidator, Field, ValidationInfo, WithJsonSchema
from pydantic.fields import FieldInfo

from engine.clock import now
from engine.errors import MalformedRequestError, UsageError
from engine.journal.entry import FAILED, State, StateFilter
from engine.ops.audit.trail import Audited

LARGEST: Final = 10**15 - 1
TIMES: Final = "2025-07-01, 2025-07-01T09:30, 22:00 for the last 22:00, or 12h for 12 h ago"
# What a filter by state takes.
STATES: Final = (*State, FAILED)
MOST_LISTED: Final = 1_000
LEAST_RATE: Final = 0.01
MOST_RATE: Final = 10_000.0
# Of the context in which a request is read whose values were written as text: in an address.
WRITTEN: Final = "written"
_AGO: Final = re.compile(r"(\d{1,6})([smhdw])")
_CLOCK: Final = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_SWITCHES: Final = {"true": True, "false": False}
_SHOWN: Final = 24
_ENTRY: Final = "an entry by its number, as `messages list` shows it"
_RUN: Final = "a run by its number, as `messages replays` shows it"
_ALERT: Final = "an alert by its number, as `alerts list` shows it"
_SHARED: Final = "a shared message by its number, as `mappings.shared` shows it"


class RequiresStepUp:
    """Marks a switch with which an operation requires step-up: the password typed just now."""


def is_number(value: object, least: int = 1, most: int = LARGEST) -> bool:
    """Say whether a value is a whole number within bounds; True and False are none."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def digits_of(text: object) -> int | None:
    """Return the number that a text writes in plain digits, at most 15 of them; None where it writes none."""
    written = str(text)
    plain = written.isascii() and written.isdigit() and len(written) <= len(str(LARGEST))
    return int(written) if plain else None


def moment_of(text: str, name: str = "since", clock: Callable[[], datetime] = now) -> datetime | None:
    """Return the moment that a text writes, None for none; without an offset it is the local time of this machine.

    `12h` is 12 hours ago, `22:00` the last time that a clock here showed that.
    UsageError for what is not a time; it names the field.
    """
    if not text.strip():
        return None
    try:
        if ago := _AGO.fullmatch(text.strip()):
            return clock() - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        if shown := _CLOCK.fullmatch(text.strip()):
            return _last(clock().astimezone(), int(shown[1]), int(shown[2]))
        return datetime.fromisoformat(text.strip()).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise UsageError(f"--{name} is not a time: write {TIMES}") from error


def _last(at: datetime, hour: int, minute: int) -> datetime:
    """Return the last time at which a clock on the wall showed an hour and a minute, today or yesterday."""
    wall = at.replace(hour=hour, minute=minute, second=0, microsecond=0, tzinfo=None)
    last = wall if wall.astimezone() <= at else wall - timedelta(days=1)
    return last.astimezone(UTC)


def _text(value: object, info: ValidationInfo) -> str:
    if not isinstance(value, str):
        raise MalformedRequestError(f"{info.field_name} must be text")
    return value


def _word(value: object, info: ValidationInfo) -> str:
    return _text(value, info).strip()


def _needed(value: object, info: ValidationInfo) -> str:
    text = "" if value is None else _text(value, info)
    if not text.strip():
        raise UsageError(f"{_name(info)} is missing")
    return text


def _moment(value: object, info: ValidationInfo) -> datetime | None:
    return moment_of(_text(value, info), _name(info))


def _state(value: object, info: ValidationInfo) -> StateFilter | None:
    text = _text(value, info)
    if text == FAILED:
        return FAILED
    if text and text not in list(State):
        raise UsageError(f"--{_name(info)} {text} is none of {', '.join(STATES)}")
    return State(text) if text else None


def _switch(value: object, info: ValidationInfo) -> bool:
    found = _SWITCHES.get(str(value), value) if _is_written(info) else value
    if not isinstance(found, bool):
        raise MalformedRequestError(f"{_name(info)} must be true or false")
    return found


def _rate(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise MalformedRequestError(_RATES)
    if not LEAST_RATE <= value <= MOST_RATE:
        raise UsageError(_RATES)
    return float(value)


def _number(value: object, info: ValidationInfo, *, least: int, most: int) -> int:
    found = digits_of(value) if _is_written(info) else value
    if found is None:
        raise MalformedRequestError(f"{_name(info)} is not a number")
    if not isinstance(found, int) or isinstance(found, bool):
        raise MalformedRequestError(f"--{_name(info)} is a number from {least} to {most}")
    if not least <= found <= most:
        raise UsageError(f"--{_name(info)} is a number from {least} to {most}")
    return found


def _named(value: object, what: str, typed: object = None) -> int:
    """Return the number of an entry, a run or an alert; `typed` is what stood there at the terminal, if it was."""
    if is_number(value):
        return int(value)  # type: ignore[call-overload,no-any-return]  # what is_number says
    found = typed if typed is not None else None if isinstance(value, str) else value
    is_malformed = value is not None and (isinstance(value, bool) or not isinstance(value, int))
    raise (MalformedRequestError if is_malformed else UsageError)(f"name {what}{_but(found)}")


def _but(value: object) -> str:
    """Say what was found instead, where that is a number, true or false, or what was typed at the terminal."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return f": {text} is not one" if isinstance(value, str | int | float) and len(text) <= _SHOWN else ""


def _entries(value: object) -> tuple[int, ...]:
    if not isinstance(value, list | tuple):
        raise MalformedRequestError("entries must be a list of numbers of entries, as `messages list` shows them")
    return tuple(sorted({_named(one, _ENTRY) for one in value}))


def _changes(value: object) -> Mapping[str, str]:
    if not isinstance(value, dict) or not all(isinstance(one, str) for one in value.values()):
        raise MalformedRequestError('`set` must be of the form {"PID-5.1": "text"}')
    return value


def _files(value: object) -> Mapping[str, str]:
    if not isinstance(value, dict) or not all(isinstance(one, str) for one in value.values()):
        raise MalformedRequestError('edited must be of the form {"resources/patient.yaml": "text"}')
    return value


def _channels(value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(one, str) for one in value):
        raise MalformedRequestError("channels is a list of names")
    return tuple(value)


def _name(info: ValidationInfo) -> str:
    return info.field_name or ""


def _is_written(info: ValidationInfo) -> bool:
    return info.context == WRITTEN


def _named_by(text: object, what: str) -> int:
    return _named(digits_of(text), what, typed=text)


def number(least: int = 0, most: int = LARGEST) -> BeforeValidator:
    """Return what reads a number within bounds."""
    return BeforeValidator(partial(_number, least=least, most=most))


def bounds_of(field: FieldInfo) -> tuple[int, int] | None:
    """Return the bounds of a field that `number` reads; None of any other."""
    readers = (one.func for one in field.metadata if isinstance(one, BeforeValidator) and isinstance(one.func, partial))
    found = next((reader.keywords for reader in readers if reader.func is _number), None)
    return (found["least"], found["most"]) if found else None


# What the terminal and addresses write as text; UsageError where it names none.
entry_of: Final = partial(_named_by, what=_ENTRY)
run_of: Final = partial(_named_by, what=_RUN)
alert_of: Final = partial(_named_by, what=_ALERT)
shared_of: Final = partial(_named_by, what=_SHARED)
NUMBERED: Final[Mapping[str, Callable[[object], int]]] = {
    "entry": entry_of,
    "run": run_of,
    "alert": alert_of,
    "shared": shared_of,
}

_RATES: Final = f"rate must be entries a second, from {LEAST_RATE} to {MOST_RATE:.0f}"


def _whole(least: int, most: int) -> FieldInfo:
    """Return what the API's description says of a number within bounds."""
    return Field(json_schema_extra={"minimum": least, "maximum": most})  # type: ignore[no-any-return]


# One in a URL's path: a number without an entry is not found.
_COUNT: Final = Field(json_schema_extra={"minimum": 0})
# As `_needed` reads it: blanks alone are nothing.
_FILLED: Final = Field(json_schema_extra={"pattern": r"\S"})
_WRITTEN: Final = WithJsonSchema({"type": "string"})

# Text of which the trail keeps nothing; a word of ours, which it keeps; and such a word that must be there. What a
# description says is the help of the option at the terminal and part of the description of the API.
Text = Annotated[str, BeforeValidator(_word)]
Verbatim = Annotated[str, BeforeValidator(_text)]
Word = Annotated[str, BeforeValidator(_word), Audited.VALUE]
Name = Annotated[str, BeforeValidator(_needed), _FILLED, Audited.VALUE]
Reason = Annotated[
    str, BeforeValidator(_text), Audited.REASON, Field(description="The reason; recorded in the audit trail.")
]
ReasonCode = Annotated[str, BeforeValidator(_word), Audited.REASON]
Patient = Annotated[
    str, BeforeValidator(_word), Audited.PATIENT, Field(description="Only of this patient: value, or system|value.")
]
Count = Annotated[int, number(), _whole(0, LARGEST), Audited.VALUE]
Limit = Annotated[int, number(1, MOST_LISTED), _whole(1, MOST_LISTED), Audited.VALUE]
UpTo200 = Annotated[int, number(1, 200), _whole(1, 200), Audited.VALUE]
AboutEntry = Annotated[int, number(), _whole(0, LARGEST), Audited.ENTRY, Field(description="Only about this entry.")]
EntryNumber = Annotated[
    int,
    BeforeValidator(partial(_named, what=_ENTRY)),
    _COUNT,
    Audited.ENTRY,
    Field(description="The number of an entry, as `messages list` shows it."),
]
EntryNumbers = Annotated[
    tuple[int, ...],
    BeforeValidator(_entries),
    WithJsonSchema({"type": "array", "items": {"type": "integer", "minimum": 1}}),
    Audited.ENTRIES,
    Field(description="Numbers of entries, as `messages list` shows them."),
]
RunNumber = Annotated[int, BeforeValidator(partial(_named, what=_RUN)), _COUNT, Audited.VALUE]
AlertNumber = Annotated[int, BeforeValidator(partial(_named, what=_ALERT)), _whole(1, LARGEST), Audited.VALUE]
Moment = Annotated[datetime | None, BeforeValidator(_moment), _WRITTEN, Audited.VALUE]
Since = Annotated[Moment, Field(description="From this time on: 2025-07-01T09:30, 22:00, or 12h for 12 hours ago.")]
Until = Annotated[Moment, Field(description="Before this time; written like since.")]
StateName = Annotated[StateFilter | None, BeforeValidator(_state), _WRITTEN, Audited.VALUE]
Switch = Annotated[bool, BeforeValidator(_switch), Audited.VALUE]
Force = Annotated[Switch, RequiresStepUp(), Field(description="Even if something newer has been applied since.")]
Rate = Annotated[float, BeforeValidator(_rate), Audited.VALUE, Field(description="Entries per second.")]
Changes = Annotated[Mapping[str, str], BeforeValidator(_changes)]
EditedFiles = Annotated[
    Mapping[str, str],
    BeforeValidator(_files),
    Audited.NAMES,
    Field(description="Texts in place of mapping files, by their path below the mapping folder."),
]
Digests = Annotated[
    Mapping[str, str],
    BeforeValidator(_files),
    Field(description="The digest of each edited file as it was read; empty for a new one."),
]
ChannelNames = Annotated[tuple[str, ...], BeforeValidator(_channels), Audited.VALUE]
