"""An operation: what a person or a program asks of the engine, defined once; and its request as strict JSON.

Socket, pages, API and its description, audit trail and step-up all read the same class: its fields are what a request
may name, its answer is what is shown, and nothing else is.
"""

import asyncio
import json
from collections.abc import Mapping
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Final, Generic, Self, TypeVar

import orjson
from pydantic import BaseModel, ConfigDict, TypeAdapter
from pydantic.fields import FieldInfo

from engine.errors import MalformedRequestError
from engine.ops.access.actor import Actor, Permission
from engine.ops.audit.trail import AUDITED, Audited, Marks
from engine.ops.operations.fields import WRITTEN, RequiresStepUp
from engine.ops.views.answer import unmarked


class KeyTwiceError(ValueError):
    """An object has a key twice: which of the two values is meant nobody knows."""


def read_strictly(content: bytes) -> object:
    """Return the value of a JSON text; KeyTwiceError where an object has a key twice, ValueError for no JSON."""
    value: object = orjson.loads(content)
    # What comes out as it came in has no key twice.
    if orjson.dumps(value) != content:
        try:
            json.loads(content, object_pairs_hook=_unique)
        except RecursionError as error:
            raise ValueError("too many levels") from error
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise KeyTwiceError
    return value


A = TypeVar("A")
MOST_NAME: Final = 40


class Confirm(Enum):
    """Whether a person at a page must have typed the password within the last five minutes."""

    NEVER = "never"
    STEP_UP = "step-up"


class Request(BaseModel):
    """What is asked: fields that are each read in one way; a name that is none of them is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    @classmethod
    def parse(cls, given: Mapping[str, object], *, written: bool = False) -> Self:
        """Return the request that is meant; `written`: as the parameters of an address, where all is text.

        MalformedRequestError for a name that is none of its fields (a mistyped filter would mean everything) or a value
        of another type, UsageError for one beyond its bounds. Neither repeats a value that may be of a patient.
        """
        fields = cls.names()
        for name in given:
            if name not in fields:
                raise MalformedRequestError(
                    f"{name[:MOST_NAME]} is not taken here; what is: {', '.join(fields) or 'nothing'}"
                )
        needed: dict[str, object] = {name: None for name, field in fields.items() if field.is_required()}
        named = {name: value for name, value in given.items() if value is not None}
        return cls.model_validate(needed | named, context=WRITTEN if written else None)

    def given(self) -> dict[str, object]:
        """Return what was named in it, as JSON-able values that `parse` reads."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)

    @classmethod
    def names(cls) -> Mapping[str, FieldInfo]:
        """Return the fields by the names that requests call them."""
        return {field.alias or name: field for name, field in cls.model_fields.items()}

    @classmethod
    @cache
    def marks(cls) -> Marks:
        """Return what the audit trail keeps of each field."""
        return {name: mark for name, field in cls.names().items() if (mark := _mark_of(field)) is not None}


def _mark_of(field: FieldInfo) -> Audited | Marks | None:
    inner = field.annotation
    if isinstance(inner, type) and issubclass(inner, Request):
        return inner.marks()
    return next((one for one in field.metadata if isinstance(one, Audited)), None)


class Operation(Request, Generic[A]):
    """One operation: its fields are what it takes, `run` does it and returns what it answers with.

    `confirm`: whether it needs the password typed just now; a field marked RequiresStepUp needs it, too. `of_channel`:
    its `channel` bounds all that it shows, so that a token limited to channels may do it. `lists`: it names the
    patients of `entries` in a list that pages show again and again; such a look is recorded once a log-in and patient.
    """

    name: ClassVar[str]
    permission: ClassVar[Permission]
    confirm: ClassVar[Confirm] = Confirm.NEVER
    of_channel: ClassVar[bool] = False
    lists: ClassVar[bool] = False

    async def run(self, engine: Any, actor: Actor) -> A:
        """Do it, on the running Engine: Any, as its type would bring all of it to each command that only asks."""
        raise NotImplementedError

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: object) -> None:
        """TypeError for an operation that shows, without a permission to see patients, what is not marked as a fact."""
        super().__pydantic_init_subclass__(**kwargs)
        if "name" in vars(cls) and cls.permission not in AUDITED and (hidden := sorted(unmarked(cls.answer_type()))):
            raise TypeError(f"{cls.name} would show {', '.join(hidden)}, which nobody marked as free of patient data")

    @classmethod
    def answer_type(cls) -> Any:
        """Return the type of its answer."""
        parents = (getattr(one, "__pydantic_generic_metadata__", {}).get("args", ()) for one in cls.__mro__)
        return next(args[0] for args in parents if args and not isinstance(args[0], TypeVar))

    @classmethod
    @cache
    def answer(cls) -> TypeAdapter[A]:
        """Return what writes its answer."""
        return TypeAdapter(cls.answer_type())

    @classmethod
    def to_json(cls, answer: A) -> Any:
        """Return an answer as JSON-able values: the declared fields, and no other."""
        return cls.answer().dump_python(answer, mode="json", exclude_unset=True)

    @classmethod
    def from_json(cls, value: object) -> A:
        """Return an answer from what another process wrote; fields that this one does not know are left out."""
        return cls.answer().validate_python(value)

    @classmethod
    @cache
    def step_up_switches(cls) -> frozenset[str]:
        """Return the switches with which it needs the password typed just now."""
        return frozenset(
            name
            for name, field in cls.names().items()
            if any(isinstance(one, RequiresStepUp) for one in field.metadata)
        )

    @classmethod
    def summary(cls) -> str:
        """Return what it does, in one line."""
        return (cls.__doc__ or "").strip().partition("\n")[0]


class Reading(Operation[A], Generic[A]):
    """An operation that reads the journal's file and nothing of the running engine; commands read alone as well."""

    def read(self, folder: Path) -> A:
        """Return what the journal of a folder holds."""
        raise NotImplementedError

    async def run(self, engine: Any, _actor: Actor) -> A:
        """Read, in a thread."""
        return await asyncio.to_thread(self.read, engine.files.data)


class ReadingMessages(Reading[A], Generic[A]):
    """A reading that shows texts of messages, which their channels' character sets decide where MSH-18 is empty."""

    def read(self, folder: Path, charsets: Mapping[str, str] | None = None) -> A:
        """Return what the journal of a folder holds; `charsets` are those of channels, by name, as far as known."""
        raise NotImplementedError

    async def run(self, engine: Any, _actor: Actor) -> A:
        """Read, in a thread, by the sets of the engine's channels."""
        return await asyncio.to_thread(self.read, engine.files.data, engine.charsets())


AnyOperation = type[Operation[Any]]
