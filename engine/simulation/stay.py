"""One stay: the states it may be in, and the table of trigger events that move it from one to another.

A cancel undoes the movement just before it and nothing else; what is not in the table does not happen.
"""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final

from engine.simulation.hospital import Bed, Doctor


class StayPhase(StrEnum):
    """The phase of a stay; its value is its patient class (PV1-2)."""

    NONE = ""
    PLANNED = "P"
    OUTPATIENT = "O"
    EMERGENCY = "E"
    INPATIENT = "I"
    LEAVE = "I-leave"
    ENDED = "ended"
    CANCELLED = "cancelled"


PRESENT: Final = (StayPhase.OUTPATIENT, StayPhase.EMERGENCY, StayPhase.INPATIENT)
OVER: Final = frozenset({StayPhase.ENDED, StayPhase.CANCELLED})

MOVES: Final[dict[tuple[StayPhase, str], StayPhase]] = {
    (StayPhase.NONE, "A05"): StayPhase.PLANNED,
    (StayPhase.NONE, "A14"): StayPhase.PLANNED,
    (StayPhase.NONE, "A01"): StayPhase.INPATIENT,
    (StayPhase.PLANNED, "A01"): StayPhase.INPATIENT,
    (StayPhase.PLANNED, "A38"): StayPhase.CANCELLED,
    (StayPhase.PLANNED, "A27"): StayPhase.CANCELLED,
    (StayPhase.OUTPATIENT, "A06"): StayPhase.INPATIENT,
    (StayPhase.EMERGENCY, "A06"): StayPhase.INPATIENT,
    (StayPhase.INPATIENT, "A07"): StayPhase.OUTPATIENT,
    (StayPhase.INPATIENT, "A21"): StayPhase.LEAVE,
    (StayPhase.LEAVE, "A22"): StayPhase.INPATIENT,
    (StayPhase.LEAVE, "A52"): StayPhase.INPATIENT,
    (StayPhase.INPATIENT, "A53"): StayPhase.LEAVE,
    (StayPhase.ENDED, "A13"): StayPhase.INPATIENT,
    (StayPhase.LEAVE, "A08"): StayPhase.LEAVE,
    (StayPhase.PLANNED, "A08"): StayPhase.PLANNED,
    (StayPhase.ENDED, "A08"): StayPhase.ENDED,
    **{
        (StayPhase.INPATIENT, trigger): StayPhase.INPATIENT
        for trigger in ("A02", "A12", "A15", "A26", "A16", "A25", "A54")
    },
    **{(state, trigger): StayPhase.CANCELLED for state in PRESENT for trigger in ("A11", "A23")},
    **{(state, "A60"): state for state in PRESENT},
    **{(state, "A03"): StayPhase.ENDED for state in PRESENT},
    **{(state, "A08"): state for state in PRESENT},
}
"""What each event makes of a stay. A04 is not here: `register` says whether it is an emergency."""

UNDOES: Final = {
    "A11": frozenset({"A01", "A04"}),
    "A12": frozenset({"A02"}),
    "A13": frozenset({"A03"}),
    "A25": frozenset({"A16"}),
    "A26": frozenset({"A15"}),
    "A27": frozenset({"A14"}),
    "A38": frozenset({"A05"}),
    "A52": frozenset({"A21"}),
    "A53": frozenset({"A22"}),
}
"""Which movements a cancel may take back."""

STILL: Final = frozenset({"A08", "A54", "A60"})
"""Events that are no movement: a cancel looks past them."""


@dataclass(slots=True)
class Stay:
    """One visit of one patient, as it is now; `number` is PV1-19, `account` PID-18."""

    number: str
    account: str
    service: str
    attending: Doctor
    referring: Doctor
    bed: Bed
    state: StayPhase = StayPhase.NONE
    was: StayPhase = StayPhase.NONE
    prior: Bed | None = None
    pending: Bed | None = None
    last: str = ""
    admitted_at: datetime | None = None
    ended_at: datetime | None = None
    disposition: str = ""
    diagnoses: list[str] = field(default_factory=list)
    procedures: list[tuple[str, datetime]] = field(default_factory=list)
    measures: tuple[int, int] | None = None

    @property
    def patient_class(self) -> str:
        """PV1-2; of a stay that is over, what it was before."""
        return self.was[:1]

    def register(self, state: StayPhase, at: datetime) -> None:
        """Begin as an outpatient or an emergency (A04)."""
        self._require(self.state is StayPhase.NONE, "A04")
        self.state, self.was, self.last, self.admitted_at = state, state, "A04", at

    def move(self, trigger: str, at: datetime, bed: Bed | None = None) -> None:
        """Let an event happen to the stay; `bed` is where it leads. ValueError where the table has no such move."""
        self._require(self.may(trigger), trigger)
        self.state = MOVES[self.state, trigger]
        self.was = self.was if self.state in OVER else self.state
        if trigger in {"A01", "A06"}:
            self.admitted_at = at if trigger == "A01" else self.admitted_at
        elif trigger == "A03":
            self.ended_at = at
        elif trigger == "A13":
            self.ended_at, self.disposition = None, ""
        if trigger == "A15":
            self.pending = bed
        elif trigger == "A12":
            self.bed, self.prior = self.prior or self.bed, None
        elif bed is not None:
            self.prior, self.bed = self.bed, bed
        if trigger not in STILL:
            self.last = trigger

    def swap(self, other: "Stay") -> None:
        """Let two patients on wards change beds (A17). ValueError where one of them is not there."""
        self._require(self.state is other.state is StayPhase.INPATIENT, "A17")
        self.prior, other.prior = self.bed, other.bed
        self.bed, other.bed = other.bed, self.bed
        self.last = other.last = "A17"

    def may(self, trigger: str) -> bool:
        """Tell whether an event may happen now."""
        undone = UNDOES.get(trigger)
        return (self.state, trigger) in MOVES and (undone is None or self.last in undone)

    def _require(self, allowed: bool, trigger: str) -> None:
        if not allowed:
            raise ValueError(
                f"{trigger} cannot happen to a stay that is {self.state.name} after {self.last or 'nothing'}"
            )
