"""Clinicians who change what a service holds, at random; and what old systems have to learn of it, in order."""

import random
from typing import Any, Final

from engine.fhir.json import JsonObject
from tests.flow.feed import SYSTEM
from tests.way_back.rig import WayBackRig, patient, visit

WARDS: Final = ("4W", "5W", "ICU", "ED")
NAMES: Final = ("Alder", "Birch", "Cedar", "Dogwood", "Elm", "Fir", "Hazel", "Juniper", "Larch", "Maple")
# What a clinician may do with a visit, by where it stands; and what that is called.
STEPS: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "planned": (("in-progress", "A01"), ("cancelled", "A38")),
    "in-progress": (("moved", "A02"), ("moved", "A02"), ("noted", "A08"), ("finished", "A03")),
}


class Clinicians:
    """Changes at one service, one after the other; `expected` are event and number of each, as they have to be learned.

    `first`: the first number of a patient; those of two services must differ.
    """

    def __init__(self, rig: WayBackRig, seed: int, first: int = 1000) -> None:
        self.rig = rig
        self.expected: list[tuple[str, str]] = []
        self._random = random.Random(seed)
        self._next = first
        self._patients: list[str] = []
        self._numbers: dict[str, str] = {}
        self._visits: list[str] = []
        self._wards: dict[str, str] = {}

    async def open(self) -> None:
        """Make the wards."""
        for name in WARDS:
            place = {"resourceType": "Location", "name": name, "identifier": [{"system": SYSTEM, "value": name}]}
            self._wards[name] = f"Location/{(await self.rig.make(place))['id']}"

    async def change(self) -> None:
        """Change something."""
        acts = [self._admit, self._correct, self._correct, self._step, self._step, self._plan]
        if len(self._patients) > 6 and self._random.random() < 0.06:
            acts = [self._merge]
        if len(self._patients) < 3:
            acts = [self._admit]
        await self._random.choice(acts)()

    async def _admit(self) -> None:
        number, self._next = str(self._next), self._next + 1
        # Nobody is taken for somebody else: the service knows people by name and birth date, too.
        name = [{"use": "official", "family": f"Quintero{number}", "given": [self._random.choice(NAMES)]}]
        made = await self.rig.make(patient(number, name=name, birthDate=f"19{self._next % 90 + 10}-01-02"))
        reference = f"Patient/{made['id']}"
        self._patients.append(reference)
        self._numbers[reference] = number
        self._expect("A28", reference)

    async def _correct(self) -> None:
        reference = self._random.choice(self._patients)
        phone = f"555-{self._random.randrange(10**6):06d}"
        await self.rig.change(reference, telecom=[{"system": "phone", "use": "home", "value": phone}])
        self._expect("A31", reference)

    async def _plan(self) -> None:
        reference = self._random.choice(self._patients)
        made = await self.rig.make(visit(reference, "planned"))
        self._visits.append(f"Encounter/{made['id']}")
        self._expect("A05", reference)

    async def _step(self) -> None:
        if not self._visits:
            await self._plan()
            return
        place = self._random.choice(self._visits)
        found = await self.rig.get(f"/{place}")
        steps = STEPS.get(found["status"], ())
        if not steps:
            self._visits.remove(place)
            await self._plan()
            return
        step, event = self._random.choice(steps)
        await self.rig.change(place, **self._elements(found, step))
        self._expect(event, found["subject"]["reference"])

    def _elements(self, found: JsonObject, step: str) -> dict[str, Any]:
        if step == "noted":
            return {"priority": {"text": f"note {self._random.randrange(10**6)}"}}
        if step in {"finished", "cancelled"}:
            return {"status": step}
        here = [one["location"]["reference"] for one in found.get("location", ())]
        ward = self._random.choice([one for one in self._wards.values() if one not in here])
        return {"status": "in-progress", "location": [{"location": {"reference": ward}, "status": "active"}]}

    async def _merge(self) -> None:
        gone, kept = self._random.sample(self._patients, 2)
        await self.rig.merge(gone, kept)
        self._patients.remove(gone)
        self._expect("A40", kept)

    def _expect(self, event: str, reference: str) -> None:
        self.expected.append((event, self._numbers[reference]))
