"""What operations answer with: values with declared fields, of which only those marked as facts are for everybody."""

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Any, ClassVar, get_args

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

Time = Annotated[str, WithJsonSchema({"type": "string", "format": "date-time"})]
# What a server or a mapping made: any JSON.
Json = Any
Count = Annotated[int, Field(ge=0)]


class Answer(BaseModel):
    """A value that is shown. What is not a declared field of the answer's own class is left out, also of a larger one.

    The fields of a class written `class Row(Answer, facts=True)` hold nothing of a patient. What a class that inherits
    from it adds does, until it says so as well.
    """

    model_config = ConfigDict(frozen=True, defer_build=True, revalidate_instances="subclass-instances")
    facts: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls, *, facts: bool = False, **kwargs: Any) -> None:
        """Add the fields that this class declares to its facts, if they are."""
        super().__init_subclass__(**kwargs)
        inherited = frozenset[str]().union(*(getattr(parent, "facts", ()) for parent in cls.__bases__))
        own = frozenset(vars(cls).get("__annotations__", ()))
        cls.facts = inherited | own if facts else inherited - own


def unmarked(answer: Any) -> Iterator[str]:
    """Yield the fields, at any depth, of a type of answer that nobody marked as facts."""
    if isinstance(answer, type) and issubclass(answer, Answer):
        for name, field in answer.model_fields.items():
            if name not in answer.facts:
                yield f"{answer.__name__}.{name}"
            yield from unmarked(field.annotation)
    for inner in get_args(answer):
        yield from unmarked(inner)


def moment_text(moment: datetime) -> str:
    """Return a moment as text."""
    return moment.isoformat(timespec="milliseconds")


def time_of(moment: datetime | None) -> str | None:
    """Return a moment as text, None for none."""
    return moment_text(moment) if moment else None
