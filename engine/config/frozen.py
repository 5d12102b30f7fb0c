"""The model of every authored value: frozen, unknown keys refused, and its rules over several keys."""

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict

from engine.config.wording import Placed, Step


class Frozen(BaseModel):
    """A frozen model that refuses unknown keys; each rule yields path, what was found, and what would do."""

    # Of the model of a whole file: the command that shows all of its keys, and what they may be.
    handbook: ClassVar[str] = ""
    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True, allow_inf_nan=False)

    def conflicts(self) -> Iterator[Placed]:
        """Yield the keys that do not fit together."""
        yield from ()

    def warnings(self) -> Iterator[Placed]:
        """Yield what is allowed and rarely meant."""
        yield from ()

    def undecided(self) -> Iterator[Placed]:
        """Yield placeholders, which a draft has in the place of what only a person can know."""
        yield from ()

    def unavailable(self) -> Iterator[Placed]:
        """Yield what this machine does not have: files, certificates, variables of the environment."""
        yield from ()


def answers(value: Any, ask: Callable[[Frozen], Iterator[Placed]], at: tuple[Step, ...] = ()) -> Iterator[Placed]:
    """Yield what every model within a value answers to `ask`, with its whole path."""
    if isinstance(value, Frozen):
        yield from (((*at, *path), found, expected) for path, found, expected in ask(value))
        fields = type(value).model_fields.items()
        parts: list[tuple[Step, Any]] = [(field.alias or name, getattr(value, name)) for name, field in fields]
    elif isinstance(value, dict):
        parts = list(value.items())
    else:
        parts = list(enumerate(value)) if isinstance(value, tuple) else []
    for step, part in parts:
        yield from answers(part, ask, (*at, step))
