"""Writers of one slice's changes: an element, one with its companion, a choice of types, a part of a list."""

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from functools import cache
from typing import Any, Final, NamedTuple

from engine.fhir.changes import INDICATORS
from engine.fhir.plan import ElementChange, Identity, Needed
from engine.hl7.leaf import NULL
from engine.mapping.files.reference import elements
from engine.mapping.language.dependence import Dependence
from engine.mapping.language.node import Step
from engine.mapping.language.reading import MessageReading
from engine.mapping.language.references import Refers, referring

# What is written of one FHIR Identifier.
Written = Callable[[Any], tuple[Any, ...]]

# Makes a NamedTuple without its constructor's overhead: a message makes hundreds of them.
fresh: Final = tuple.__new__


class SliceChanges(NamedTuple):
    """The changes of one slice, the warnings that came with them, and the resources that these refer to.

    `refers`: those with names that only a plan can resolve. `stand_in`: they are a stand-in's.
    """

    changes: tuple[ElementChange, ...]
    warnings: tuple[str, ...]
    referred: dict[str, Needed]
    refers: Refers = ()
    stand_in: bool = False


class Single(NamedTuple):
    """A single element."""

    name: str
    step: Step

    def write(self, reading: MessageReading, changes: list[ElementChange]) -> None:
        """Add the change of the element, if the segments have one."""
        value = self.step(None, reading)
        if value is NULL:
            changes.append(_deleted(self.name))
        elif value is not None:
            changes.append(fresh(ElementChange, (self.name, self.name, (value,), False)))


class Many(NamedTuple):
    """One slice of a list."""

    name: str
    slice: str
    step: Step

    def write(self, reading: MessageReading, changes: list[ElementChange]) -> None:
        """Add the items of the slice."""
        items = self.step(None, reading)
        if items is not None:
            found = () if items is NULL else tuple(items)
            changes.append(fresh(ElementChange, (self.name, self.slice, found, True)))


class PrimitiveWriter(NamedTuple):
    """A primitive element and its companion (`_name`), which holds its extensions."""

    name: str
    step: Step
    companion: Step

    def write(self, reading: MessageReading, changes: list[ElementChange]) -> None:
        """Add both; a deleted element takes its companion along."""
        name, companion, value = self.name, f"_{self.name}", self.step(None, reading)
        if value is NULL:
            changes += (_deleted(name), _deleted(companion))
            return
        more = self.companion(None, reading)
        if value is None and not isinstance(more, dict):
            return
        changes.append(_deleted(name) if value is None else ElementChange(name, name, (value,), many=False))
        changes.append(
            ElementChange(companion, companion, (more,), many=False) if isinstance(more, dict) else _deleted(companion)
        )


class ChoiceWriter(NamedTuple):
    """An element of one of several types (`deceased[x]`): the first that has a value."""

    steps: tuple[tuple[str, Step], ...]

    def write(self, reading: MessageReading, changes: list[ElementChange]) -> None:
        """Add the one that has a value, with deletions of the others; or all deletions."""
        deleted = []
        for name, step in self.steps:
            value = step(None, reading)
            if value is NULL:
                deleted.append(_deleted(name))
            elif value is not None:
                change = ElementChange(name, name, (value,), many=False)
                if value is True and name in INDICATORS:
                    changes += (*deleted, change)
                else:
                    changes += (change, *[_deleted(other) for other in dict(self.steps) if other != name])
                return
        changes.extend(deleted)


class ResourceWriter(NamedTuple):
    """All elements of a resource that one template makes; each list is one slice."""

    step: Step
    type_: str

    def write(self, reading: MessageReading, changes: list[ElementChange]) -> None:
        """Add each element that has a value."""
        body = self.step(None, reading)
        changes += body_changes(body if isinstance(body, dict) else {}, self.type_)


class SliceWriter(NamedTuple):
    """The writer of one slice, and its dependence: without a filled field nothing is written.

    `always`: it may write a constant even so.
    """

    element: Single | Many | PrimitiveWriter | ChoiceWriter | ResourceWriter
    depends: Dependence
    always: bool

    def read(self, reading: MessageReading) -> SliceChanges:
        """Return the changes; their warnings include repetitions that the slice left unread.

        `reading` is a separate one for slices (`apart`): its earlier notes are dropped.
        """
        reading.forget()
        found: list[ElementChange] = []
        self.element.write(reading, found)
        if reading.once:
            reading.warn_left_out()
        changes = tuple(found)
        refers = referring(changes) if self.depends.refers else ()
        return fresh(SliceChanges, (changes, tuple(reading.warnings), reading.referred, refers, False))

    def add(self, reading: MessageReading, changes: list[ElementChange]) -> None:
        """Add the changes, and their notes to a reading that several slices share."""
        if reading.once or reading.whole:
            reading.once, reading.whole = [], []
        self.element.write(reading, changes)
        if reading.once:
            reading.warn_left_out()


class IdentifierList(NamedTuple):
    """The step that makes a list of identifiers, its dependence, and what is written of each (`normalise`)."""

    step: Step
    depends: Dependence
    written: Written

    def read(
        self, reading: MessageReading, as_sent: AbstractSet[Identity] = frozenset()
    ) -> tuple[tuple[Any, ...], list[str]]:
        """Return the FHIR identifiers, each system and value once, and the warnings that came with them.

        Those of `as_sent` keep the form in which the message has them.
        """
        own = reading.apart()
        made = self.step(None, own)
        once: dict[tuple[str, str], Any] = {}
        for item in () if made is None or made is NULL else made:
            key = item.get("system", ""), item["value"]
            for one in (item,) if key in as_sent else self.written(item):
                once.setdefault((one.get("system", ""), one["value"]), one)
        return tuple(once.values()), own.warnings


def deletions(writer: SliceWriter) -> tuple[ElementChange, ...]:
    """Return deletions of all that a writer may write."""
    one = writer.element
    if isinstance(one, Many):
        return (ElementChange(one.name, one.slice, (), many=True),)
    if isinstance(one, ChoiceWriter):
        return tuple([_deleted(name) for name, _ in one.steps])
    return (
        ()
        if isinstance(one, ResourceWriter)
        else (_deleted(one.name), *([_deleted(f"_{one.name}")] * isinstance(one, PrimitiveWriter)))
    )


def body_changes(body: dict[str, Any], type_: str) -> tuple[ElementChange, ...]:
    """Return the elements of a whole resource as changes; each list is one slice."""
    known = elements()[type_]
    return tuple(
        [
            fresh(ElementChange, (name, name, tuple(value) if many else (value,), many))
            for name, value in body.items()
            for many in (name in known and known[name].many,)
        ]
    )


@cache
def _deleted(name: str) -> ElementChange:
    return ElementChange(name, name, (), many=False)
