"""What operations answer with: values with declared fields, of which only those marked as facts are for everybody."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from datetime import datetime
from functools import cache, partial
from typing import Annotated, Any, ClassVar, Final, Self, get_args

import orjson
from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema
from pydantic.fields import FieldInfo


def moment_text(moment: datetime) -> str:
    """Return a moment as text."""
    return moment.isoformat(timespec="milliseconds")


def time_of(moment: datetime | None) -> str | None:
    """Return a moment as text, None for none."""
    return moment_text(moment) if moment else None


def _time(value: object, timespec: str = "milliseconds") -> object:
    return value.isoformat(timespec=timespec) if isinstance(value, datetime) else value


def _json(content: object) -> object:
    """Return what bytes hold: JSON, else their text; None for none."""
    if not isinstance(content, bytes):
        return content
    try:
        return orjson.loads(content) if content else None
    except orjson.JSONDecodeError:
        return text_of(content)


def text_of(content: bytes) -> str:
    """Return bytes as text; what is no UTF-8 is shown as its numbers."""
    return content.decode("utf-8", "backslashreplace")


def known_as(name: str, other: str) -> FieldInfo:
    """Return a field that has another name in the value that is shown, or in what another process wrote."""
    found: FieldInfo = Field(validation_alias=AliasChoices(other, name))
    return found


_DATE_TIME: Final = WithJsonSchema({"type": "string", "format": "date-time"})
Time = Annotated[str, BeforeValidator(_time), _DATE_TIME]
TimeInSeconds = Annotated[str, BeforeValidator(partial(_time, timespec="seconds")), _DATE_TIME]
# What a server or a mapping made: any JSON. Not `Json`, by whose members pydantic would read it.
AnyJson = Any
# The same, of bytes.
Body = Annotated[AnyJson, BeforeValidator(_json)]
Headers = Annotated[dict[str, str], BeforeValidator(dict)]
Count = Annotated[int, Field(ge=0)]
EntrySeq = Annotated[Count, known_as("entry", "seq")]


class Answer(BaseModel):
    """A value that is shown. What is not a declared field of the answer's own class is left out, also of a larger one.

    The fields of a class written `class Row(Answer, facts=True)` hold nothing of a patient. What a class that inherits
    from it adds does, until it says so as well.
    """

    model_config = ConfigDict(
        frozen=True, defer_build=True, revalidate_instances="subclass-instances", from_attributes=True
    )
    facts: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls, *, facts: bool = False, **kwargs: Any) -> None:
        """Add the fields that this class declares to its facts, if they are."""
        super().__init_subclass__(**kwargs)
        inherited = frozenset[str]().union(*(getattr(parent, "facts", ()) for parent in cls.__bases__))
        own = frozenset(vars(cls).get("__annotations__", ()))
        cls.facts = inherited | own if facts else inherited - own

    @classmethod
    def of(cls, value: object, /, **others: object) -> Self:
        """Return what is shown of a value: its attributes of the fields' names, with `others` in place of its own."""
        if not others:
            return cls.model_validate(value)
        own = {name: getattr(value, name) for name in _names(value.__class__)} if is_dataclass(value) else vars(value)
        return cls.model_validate({**own, **others})


@cache
def _names(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


def unmarked(answer: object) -> Iterator[str]:
    """Yield the fields, at any depth, of a type of answer that nobody marked as facts."""
    if isinstance(answer, type) and issubclass(answer, Answer):
        for name, field in answer.model_fields.items():
            if name not in answer.facts:
                yield f"{answer.__name__}.{name}"
            yield from unmarked(field.annotation)
    for inner in get_args(answer):
        yield from unmarked(inner)
