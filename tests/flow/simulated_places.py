"""Where a simulated visit is and was: what each system says of its places, slow and obvious."""

from dataclasses import dataclass, field, replace
from typing import Final

from tests.flow.simulated_message import NULL, Message, moment, places

ARRIVES: Final = frozenset({"A01", "A02", "A04", "A06", "A07", "A10", "A17", "A22"})
"""Events that say since when a visit is where it is."""
TAKES_BACK: Final = {"A02": "PV1-42", "A03": "PV1-42", "A12": "PV1-6", "A26": "PV1-42"}
"""Which of a visit's places an event takes away."""


@dataclass(frozen=True, slots=True)
class Place:
    """A place, how it stands, since when and until when, as far as anybody said."""

    name: str
    status: str
    since: str = ""
    until: str = ""

    @property
    def past(self) -> bool:
        """Whether it is a time that is over."""
        return self.status == "completed" and bool(self.until)


@dataclass(slots=True)
class Whereabouts:
    """What each system says, by system and field; where it said the visit was before; what nobody says any more."""

    now: dict[tuple[str, str], Place] = field(default_factory=dict)
    before: dict[str, list[Place]] = field(default_factory=dict)
    loose: list[Place] = field(default_factory=list)

    def all(self) -> list[tuple[str, str, str, str]]:
        """Return every place once."""
        left = [place for some in self.before.values() for place in some]
        found = {*self.now.values(), *left, *self.loose}
        return sorted((one.name, one.status, one.since, one.until) for one in found)

    def told(self, message: Message, *, over: bool) -> None:
        """Let a message speak of the places of a visit, which is `over` after it or not."""
        source, taken = message.source, TAKES_BACK.get(message.event)
        known = {*self.now.values(), *self.before.get(source, ()), *self.loose}
        known |= {place for some in self.before.values() for place in some}
        said = {name: Place(place, status) for name, place, status in places(message) if name != taken}
        if over:
            said = {name: _ended(place) for name, place in said.items()}
        if "PV1-3" in said:
            said["PV1-3"] = self._here(
                known, source, _timed(said["PV1-3"], message), keeps_prior="PV1-6" in said or taken == "PV1-6"
            )
        if "PV1-6" in said:
            since = said["PV1-3"].since if message.event in ARRIVES else ""
            said["PV1-6"] = _before(said["PV1-6"], known | set(self.before.get(source, ())), since)
        self.now.pop((source, taken or ""), None)
        self.now |= {(source, name): place for name, place in said.items()}
        self._once([*said.values(), *self.before.get(source, ())])
        if over:
            self._end(source)

    def _here(self, known: set[Place], source: str, new: Place, *, keeps_prior: bool) -> Place:
        """Return where the visit is by a system's word, and let what it left be before."""
        old, left = self.now.get((source, "PV1-3")) or _told_by_others(known, new), self.before.setdefault(source, [])
        prior = self.now.get((source, "PV1-6"))
        if old and new.since and old.since > new.since:
            return old
        came_back = old and old.until and new.since and new.status == "active" and old.until <= new.since
        if old and old.name == new.name and not came_back:
            return _again(old, new)
        if new.since or new.until:
            if prior and prior not in left:
                left.append(prior)
            if old and old.status != "planned":
                left.append(replace(old, status="completed", until=old.until or new.since or new.until))
            return new
        again = next((one for one in reversed(left) if one.name == new.name), None)
        if again is None:
            return new
        left.remove(again)
        if again == prior and not keeps_prior:
            del self.now[source, "PV1-6"]
        return _again(again, new)

    def _once(self, told: list[Place]) -> None:
        """Forget what differs from what is told in status and time only, but for times that are over."""
        names = {one.name for one in told}
        self.now = {key: one for key, one in self.now.items() if one in told or one.past or one.name not in names}
        self.loose = [one for one in self.loose if one in told or one.past or one.name not in names]

    def _end(self, source: str) -> None:
        """Let nothing be active any more; of what another system said, nobody says that it ended."""
        for key, place in list(self.now.items()):
            if place.status == "active" and key[0] == source:
                self.now[key] = _ended(place)
            elif place.status == "active":
                self.loose.append(_ended(self.now.pop(key)))


def _timed(place: Place, message: Message) -> Place:
    since = message.at if message.event in ARRIVES and place.status not in {"planned", "reserved"} else ""
    if place.status != "completed":
        return replace(place, since=since)
    told = message.get("PV1", 45)
    until = moment(told) if told not in {"", NULL} else message.at if message.event == "A03" else ""
    return replace(place, since=since, until=until)


def _again(old: Place, new: Place) -> Place:
    until = new.until or old.until if new.status == "completed" else ""
    return replace(new, since=old.since or new.since, until=until)


def _before(place: Place, known: set[Place], since: str) -> Place:
    """Return the place before, with what is known of it."""
    over = [one for one in known if one.name == place.name and one.status == "completed"]
    if over:
        return max(over, key=lambda one: one.until)
    left = next((one for one in known if one.name == place.name and one.status == "active"), None)
    return replace(place, since=left.since, until=since) if left else place


def _told_by_others(known: set[Place], new: Place) -> Place | None:
    """Return the place as another system told it and has not seen it left, if one did."""
    alike = [one for one in known if one.name == new.name and one.status in {"active", new.status}]
    return next((one for one in alike if not one.until or one.until == new.until), None)


def _ended(place: Place) -> Place:
    return replace(place, status="completed") if place.status == "active" else place
