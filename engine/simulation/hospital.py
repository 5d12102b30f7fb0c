"""The simulated hospital: its beds, its doctors, the numbers that it gives out, and its sending systems."""

from dataclasses import dataclass
from random import Random
from typing import Final, NamedTuple

from engine.simulation import words

RIVERBEND: Final = "RVB"
LAKESIDE: Final = "LKS"


@dataclass(frozen=True, slots=True)
class SendingSystem:
    """One sending system.

    `charset` is what its MSH-18 says and `codec` what it writes; `digits` how precise its times are; `structure`
    whether it fills MSH-9.3; `trailing` how many empty fields it leaves at the end of each segment; `deletes` whether
    it writes `""` for what a cancel takes back, rather than nothing; `prefix` begins its control IDs.
    """

    application: str
    facility: str
    authority: str
    version: str
    charset: str
    codec: str
    prefix: str
    digits: int = 14
    structure: bool = True
    trailing: int = 0
    deletes: bool = False

    @property
    def release(self) -> int:
        """The second number of the version: 5 for 2.5.1."""
        return int(self.version.split(".")[1])

    @property
    def wide(self) -> bool:
        """Whether it can write every character."""
        return self.codec == "utf-8"


REGISTRATION: Final = SendingSystem(
    "REG", "RIVERBEND", RIVERBEND, "2.5.1", "UNICODE UTF-8", "utf-8", "RG", deletes=True
)
EMERGENCY: Final = SendingSystem(
    "EMERG", "RIVERBEND", RIVERBEND, "2.3", "8859/1", "latin-1", "EM", digits=12, structure=False, trailing=4
)
CLINIC: Final = SendingSystem("CLINIC", "LAKESIDE", LAKESIDE, "2.4", "UTF-8", "utf-8", "LC", structure=False)
INDEX: Final = SendingSystem("MPI", "RIVERBEND", RIVERBEND, "2.8", "UNICODE UTF-8", "utf-8", "PI", trailing=1)

SENDERS: Final = (REGISTRATION, EMERGENCY, CLINIC, INDEX)


WARDS: Final = ("2N", "2S", "3W", "4E", "5C", "ICU")
LEAST_ROOMS: Final = 14
PLACES_OF_CARE: Final = {"E": ("ED", 30), "O": ("OPD", 12)}
NUMBERS: Final = {RIVERBEND: "RB", LAKESIDE: "LK"}


class Bed(NamedTuple):
    """Where a patient is: PL.1 to PL.4 and the building."""

    point_of_care: str
    room: str
    bed: str
    facility: str
    building: str = "MAIN"


@dataclass(frozen=True, slots=True)
class Doctor:
    """One of the doctors, by the number of its authority."""

    number: str
    family: str
    given: str


class Hospital:
    """What all stays share; there are more rooms for more `patients`.

    Two patients never lie in one bed; when all are taken, beds are put up in the hall. All numbers bear its `name`, so
    that those of two hospitals are never the same.
    """

    def __init__(self, draw: Random, patients: int = 100, name: str = "") -> None:
        self._name = f"{name}-" if name else ""
        rooms = max(LEAST_ROOMS, patients // 10)
        self._free = [
            Bed(ward, f"{100 * (at + 2) + room}", bed, "RIVERBEND")
            for at, ward in enumerate(WARDS)
            for room in range(1, rooms + 1)
            for bed in "AB"
        ]
        self._hall = 0
        self._counts = {"number": 0, "visit": 0, "account": 0, "message": 0}
        self.doctors = tuple(
            Doctor(
                f"{self._name}{1100 + 17 * at}",
                draw.choice(words.BEGINNINGS) + draw.choice(words.ENDINGS),
                draw.choice(words.GIVEN["FM"[at % 2]]),
            )
            for at in range(24)
        )

    def number(self, authority: str) -> str:
        """Return a medical record number that was never given out before."""
        return f"{NUMBERS[authority]}{self._name}{self._next('number'):06d}"

    def visit(self) -> str:
        """Return a visit number that was never given out before."""
        return f"V{self._name}{self._next('visit'):07d}"

    def account(self) -> str:
        """Return an account number that was never given out before."""
        return f"AC{self._name}{self._next('account'):07d}"

    def message(self) -> str:
        """Return the number of the next message that is written."""
        return f"{self._name}{self._next('message'):08d}"

    def bed(self, draw: Random) -> Bed:
        """Take a free bed on a ward."""
        if not self._free:
            self._hall += 1
            return Bed("HALL", f"{self._hall}", "A", "RIVERBEND")
        at = draw.randrange(len(self._free))
        self._free[at], self._free[-1] = self._free[-1], self._free[at]
        return self._free.pop()

    def take(self, bed: Bed) -> bool:
        """Take one bed and no other; False where somebody else lies in it."""
        if bed not in self._free:
            return False
        self._free.remove(bed)
        return True

    def ward(self, draw: Random) -> Bed:
        """Return a ward without a bed on it, for what is only planned."""
        return Bed(draw.choice(WARDS), "", "", "RIVERBEND")

    def leave(self, bed: Bed) -> None:
        """Give a bed back; chairs of the emergency department and of clinics are nobody's."""
        if bed.point_of_care not in {"ED", "OPD"}:
            self._free.append(bed)

    def place(self, draw: Random, patient_class: str, facility: str) -> Bed:
        """Return a place in the emergency department or in a clinic, which many may share."""
        name, rooms = PLACES_OF_CARE[patient_class]
        return Bed(name, f"{draw.randrange(1, rooms + 1)}", "", facility, "")

    def _next(self, name: str) -> int:
        self._counts[name] += 1
        return self._counts[name]
