"""The evaluation of one change: the roots of paths, notes, and the trace of rules for explanations."""

from datetime import datetime
from typing import Any, Final

from engine.fhir.json import JsonObject
from engine.mapping.outgoing.change import FhirChange, TracedField

UNRESOLVED: Final = "reference-left-out"


class ChangeReading:
    """What rules read of one change; `place` is the field at hand, `notes` gather what the message cannot say."""

    __slots__ = ("_roots", "change", "event", "notes", "place", "trace")

    def __init__(self, change: FhirChange, version: str, now: datetime, *, traced: bool = False) -> None:
        self.change = change
        self.event = ""
        self.place = ""
        self.notes: list[str] = []
        self.trace: list[TracedField] | None = [] if traced else None
        self._roots: dict[str, list[Any]] = {
            "Patient": [change.patient],
            "Encounter": _some(change.encounter),
            "$merged": _some(change.merged),
            "$kind": [change.kind.value],
            "$at": [] if change.at is None else [change.at.isoformat()],
            "$version": [version],
            "$now": [now.isoformat()],
            "$event": [],
            "$position": [],
        }

    def begin(self, event: str) -> None:
        """Set the event, once it is decided."""
        self.event = event
        self._roots["$event"] = [event]

    def at_position(self, number: int) -> None:
        """Set the number of the segment that is made, among those of its name."""
        self._roots["$position"] = [number]

    def start(self, name: str) -> list[Any]:
        """Return what a path begins with."""
        return self._roots[name]

    def resolved(self, references: list[Any]) -> list[JsonObject]:
        """Return the resources of references; one that is not at hand is noted."""
        found: list[JsonObject] = []
        for one in references:
            name = one.get("reference") if isinstance(one, dict) else None
            if not isinstance(name, str):
                continue
            resource = self.change.resources.get(name)
            if isinstance(resource, dict):
                found.append(resource)
            else:
                self._note(UNRESOLVED, self.place.partition(".")[0])
        return found

    def note(self, reason: str) -> None:
        """Note a reason at the field at hand, once."""
        self._note(reason, self.place)

    def _note(self, reason: str, place: str) -> None:
        note = f"{reason} {place}".rstrip()
        if note not in self.notes:
            self.notes.append(note)


def _some(resource: JsonObject | None) -> list[Any]:
    return [] if resource is None else [resource]
