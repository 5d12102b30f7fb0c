"""What a simulation's messages should have made of people and visits: slow, obvious, and nothing of the engine's in it.

It knows only what engine/simulation tells: two authorities, four sending systems, the merge, the change of number,
moves, links, deletions, and the events of a visit.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from tests.flow.simulated_message import NULL, Message, Number, lists, moment, security, single
from tests.flow.simulated_places import Whereabouts

SEVERAL: Final = "multiple-matches"
ELSEWHERE: Final = "source-merged-elsewhere"
DEATH: Final = "death-on-merged-record"
CLASSES: Final = {"E": "EMER", "I": "IMP", "O": "AMB", "P": "PRENC"}
BEGINS: Final = {"A01": "in-progress", "A04": "in-progress", "A05": "planned", "A14": "planned"}
OVER: Final = frozenset({"finished", "cancelled", "entered-in-error"})
CANCELS: Final = frozenset({"A11", "A12", "A13", "A23", "A25", "A26", "A27", "A38", "A52", "A53"})
WAKES: Final = frozenset({*BEGINS, "A28"})
UNDOES: Final = {
    ("A13", "finished"): "in-progress",
    ("A52", "onleave"): "in-progress",
    ("A53", "in-progress"): "onleave",
}
MOVES: Final = {
    ("A21", "in-progress"): "onleave",
    ("A21", "planned"): "onleave",
    ("A22", "onleave"): "in-progress",
    **{(event, "planned"): "in-progress" for event in ("A01", "A02", "A04", "A06", "A07")},
}
"""What events make of a status; all others leave it as it is."""
SINGLE: Final = ("active", "birthDate", "gender", "maritalStatus", "deceased")
LISTS: Final = ("name", "address", "phone")


@dataclass(slots=True)
class Record:
    """One chart as it should be.

    `said` holds what each system says of a list now, by list and system: an item is there as long as anybody says it.
    """

    current: list[Number]
    old: set[Number] = field(default_factory=set)
    security: set[str] = field(default_factory=set)
    facts: dict[str, str] = field(default_factory=dict)
    said: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    merged_into: "Record | None" = None
    replaces: "list[Record]" = field(default_factory=list)
    links: "list[Record]" = field(default_factory=list)

    @property
    def has_died(self) -> bool:
        """Whether the chart tells of a death."""
        return self.facts.get("deceased", "") not in {"", "false"}

    def list_of(self, name: str) -> set[str]:
        """Return the items of a list."""
        return {item for (of, _), items in self.said.items() if of == name for item in items}


@dataclass(slots=True)
class Visit:
    """One visit as it should be.

    `latest` is the time of the latest event that was told of it.
    """

    subject: Record
    status: str
    latest: str = ""
    facts: dict[str, str] = field(default_factory=dict)
    places: Whereabouts = field(default_factory=Whereabouts)


class Held(Exception):  # noqa: N818 - it is an ending, not a fault
    """The message is held, or waits behind one that is; how it ends."""


class Fold:
    """The hospital after those of the messages that were told so far."""

    def __init__(self, messages: Sequence[bytes]) -> None:
        self.records: list[Record] = []
        self.visits: dict[Number, Visit] = {}
        self.merges = 0
        self._messages = [Message(raw) for raw in messages]
        self._stuck: list[Number] = []
        self._lanes: dict[Number, Number] = {}
        self._in_the_end: dict[Number, Number] = {}
        for message in self._messages:
            _unite(self._in_the_end, message)

    def tell(self, at: int, ended: str) -> str:
        """Let the message at a place happen and return how it should end: `held REASON`, `waiting`, or `delivered`.

        `ended` is how it ended, of which two things are believed once they are shown to be possible: patients are
        dealt with beside one another, so that it is open which of a person's registrations is the one that finds
        several others, and whether a message was under way before a later one tied its patient to one who is held.
        """
        message = self._messages[at]
        _unite(self._lanes, message)
        try:
            self._check(message, ended)
            self._happen(message)
        except Held as held:
            self._stuck += message.everybody
            return str(held)
        return "delivered"

    def _born_later(self, message: Message) -> str:
        """Return the birth date of somebody who is brought in unknown, as a later message tells it; else nothing."""
        same = [one for one in self._messages if set(one.numbers()) & set(message.numbers())]
        return next((born for born in (single(one, 0)["birthDate"] for one in same) if born), "")

    def over_again(self) -> None:
        """Let what is told from here on come before what is held: entries are replayed in their old places."""
        self._stuck.clear()

    def _check(self, message: Message, ended: str) -> None:
        """Raise Held where something else than the message itself says how it ends."""
        numbers = message.everybody
        if _meet(self._lanes, numbers, self._stuck):
            raise Held("waiting")
        if ended == "waiting" and _meet(self._in_the_end, numbers, self._stuck):
            raise Held(ended)
        if ended == f"held {SEVERAL}" and self._several(message):
            raise Held(ended)

    def _several(self, message: Message) -> bool:
        """Say whether somebody is registered several times over, at several authorities, beside this message."""
        same = {number for one in self._messages if one.person == message.person for number in one.numbers()}
        others = same - set(message.numbers())
        return len(others) > 1 and not self._found(message)

    def head(self, number: Number) -> Record | None:
        """Return the chart that a number leads to now, through every merge; None where nobody ever had it."""
        having = [record for record in self.records if number in record.current or number in record.old]
        heads = {id(head_of(one)): head_of(one) for one in having}
        if len(heads) > 1:
            raise Held("held ambiguous-identity")
        return next(iter(heads.values()), None)

    def _happen(self, message: Message) -> None:
        if message.event == "A40":
            self._merge(message)
        elif message.event == "A47":
            self._rename(message)
        elif message.event in {"A24", "A37"}:
            self._link(message)
        elif message.event == "A43":
            self._move(message)
        elif message.event == "A29":
            self._delete(message)
        elif message.event == "A41":
            record = self._found(message)
            self._number(record, message, 0) if record else self._say(None, message)
        elif len(message.segments["PID"]) > 1:
            for at in range(len(message.segments["PID"])):
                self._happen(message.of(at))
        else:
            record = self._found(message)
            visit = self.visits.get(message.visit) if message.visit else None
            if record is None and message.event in CANCELS:
                return
            record = self._say(record, message)
            if message.visit and message.event != "A60" and (visit is not None or message.event not in CANCELS):
                self._visited(record, message, message.visit)

    def _found(self, message: Message, at: int = 0) -> Record | None:
        heads = [self.head(number) for number in message.numbers(at)]
        found = {id(one): one for one in heads if one is not None}
        if len(found) > 1:
            raise Held("held identity-conflict")
        return next(iter(found.values()), None)

    def _say(self, record: Record | None, message: Message, at: int = 0) -> Record:
        """Let a PID speak of a chart; one that is not there is made, where the PID says enough for it."""
        if record is None:
            if not message.get("PID", 7, at) and not self._born_later(message):
                raise Held("held missing-required")
            record = Record([])
            self.records.append(record)
            record.facts |= {"active": "true", "birthDate": self._born_later(message)}
        self._number(record, message, at)
        if message.event == "A23":
            return record
        record.facts |= {name: value for name, value in single(message, at).items() if value}
        for name, items in lists(message, at).items():
            if items:
                record.said[name, message.source] = items
        if message.event in WAKES:
            record.facts["active"] = "true"
        return record

    def _number(self, record: Record, message: Message, at: int) -> None:
        """Let a chart have the numbers of a PID, but for those of charts that it replaced."""
        former = {number for ancestor in _ancestors(record) for number in (*ancestor.current, *ancestor.old)}
        for number in message.numbers(at):
            if number not in (*record.current, *record.old, *former):
                record.current.append(number)
        record.security |= set(security(message, at))

    def _delete(self, message: Message) -> None:
        record = self._found(message)
        if record is not None and any(number in record.current for number in message.numbers()):
            record.facts["active"] = "false"

    def _move(self, message: Message) -> None:
        """Let a number leave the chart that has it, which keeps at least one, and be the other's."""
        number, target = message.merged[0], self._found(message)
        holder = self.head(number)
        if holder is not None and holder is not target:
            if not self._in_use(number):
                raise Held(f"held {ELSEWHERE}")
            if holder.current == [number]:
                raise Held("held last-number")
        target = target or self._say(None, message)
        if holder is target:
            return
        if holder is not None:
            holder.current.remove(number)
        target.current.append(number)

    def facts(self) -> dict[str, dict[str, object]]:
        """Return what is to be found at the service: each chart, each visit, and whom each number leads to."""
        found: dict[str, dict[str, object]] = {}
        for record in self.records:
            found[f"chart {named(record.current)}"] = {
                "current": sorted(record.current),
                "old": sorted(record.old),
                "security": sorted(record.security),
                "merged into": named(record.merged_into.current) if record.merged_into else "",
                "links": sorted(named(link.current) for link in record.links),
                **{name: record.facts.get(name, "") for name in SINGLE},
                **{name: sorted(record.list_of(name)) for name in LISTS},
            }
            for number in (*record.current, *record.old):
                found[f"number {named([number])}"] = {"leads to": named(head_of(record).current)}
        for number, visit in self.visits.items():
            found[f"visit {named([number])}"] = {
                "subject": named(head_of(visit.subject).current),
                "status": visit.status,
                "places": visit.places.all(),
                **{name: visit.facts.get(name, "") for name in ("class", "start", "end")},
            }
        return found

    def _in_use(self, number: Number) -> bool:
        """Say whether a number is that of a chart which nobody merged into another."""
        return any(number in record.current and record.merged_into is None for record in self.records)

    def _merge(self, message: Message) -> None:
        source, survivor = self.head(message.merged[0]), self._found(message)
        if source is not None and source is not survivor and not self._in_use(message.merged[0]):
            raise Held(f"held {ELSEWHERE}")
        if source and survivor and source is not survivor and source.has_died and not survivor.has_died:
            raise Held(f"held {DEATH}")
        if survivor is None:
            survivor = self._say(None, message)
        if message.merged[0] not in survivor.current:
            survivor.old.add(message.merged[0])
        if source is None or source is survivor:
            return
        self.merges += 1
        source.merged_into, source.facts["active"] = survivor, "false"
        survivor.replaces.append(source)
        for other in source.links:
            other.links = [survivor if link is source else link for link in other.links]
            if other is not survivor and other not in survivor.links:
                survivor.links.append(other)
        survivor.links = [link for link in survivor.links if link not in (source, survivor)]

    def _rename(self, message: Message) -> None:
        new, old = message.numbers()[0], message.merged[0]
        if self.head(old) is not None and self.head(new) is None and not self._in_use(old):
            raise Held(f"held {ELSEWHERE}")
        record = self.head(old) or self.head(new) or self._say(None, message)
        merged = any(old in ancestor.current for ancestor in _ancestors(record))
        if record is self.head(new) and (merged or old not in (*record.current, *record.old)):
            return
        record.current = [number for number in record.current if number != old]
        record.old.add(old)
        if new not in record.current:
            record.current.append(new)

    def _link(self, message: Message) -> None:
        apart = message.event == "A37"
        sides = [self._found(message, at) for at in range(2)]
        if apart and None in sides:
            return
        one, other = (side or self._say(None, message, at) for at, side in enumerate(sides))
        if one is other:
            return
        for mine, theirs in ((one, other), (other, one)):
            mine.links = [each for each in mine.links if each is not theirs] + ([] if apart else [theirs])

    def _visited(self, record: Record, message: Message, number: Number) -> None:
        visit, event = self.visits.get(number), message.event
        ended = moment(message.get("PV1", 45))
        if visit is not None and _says_nothing(visit.status, event):
            visit.latest = max(visit.latest, message.at)
            if head_of(visit.subject) is not record:
                raise Held("held visit-of-another-patient")
            return
        if visit is None:
            visit = self.visits[number] = Visit(record, _begun(message))
        else:
            visit.status = _moved(visit.status, event, over=bool(ended), anew=message.at > visit.latest)
        visit.latest = max(visit.latest, message.at)
        if head_of(visit.subject) is not record:
            raise Held("held visit-of-another-patient")
        visit.subject = record
        visit.facts["class"] = CLASSES[message.get("PV1", 2)]
        visit.facts |= {
            name: value for name, value in (("start", moment(message.get("PV1", 44))), ("end", ended)) if value
        }
        if event == "A13":
            visit.facts.pop("end", None)
        visit.places.told(message, over=visit.status in OVER)


def named(numbers: Iterable[Number]) -> str:
    """Return how a chart, or a visit, is called here: by the first of its numbers."""
    return "|".join(min(numbers))


def _unite(lanes: dict[Number, Number], message: Message) -> None:
    """Let those numbers lead to one lane that a message says are one patient's."""
    for at in range(len(message.segments["PID"])):
        apart = message.event == "A43"
        first, *others = message.numbers(at) + (message.merged if at == 0 and not apart else [])
        for other in others:
            if (lane := _lane(lanes, other)) != _lane(lanes, first):
                lanes[lane] = _lane(lanes, first)


def _lane(lanes: dict[Number, Number], number: Number) -> Number:
    while number in lanes:
        number = lanes[number]
    return number


def _meet(lanes: dict[Number, Number], some: Iterable[Number], others: Iterable[Number]) -> bool:
    return not {_lane(lanes, number) for number in some}.isdisjoint(_lane(lanes, number) for number in others)


def head_of(record: Record) -> Record:
    """Return the chart that a chart has become, through every merge."""
    while record.merged_into is not None:
        record = record.merged_into
    return record


def _ancestors(record: Record) -> Iterable[Record]:
    for replace in record.replaces:
        yield replace
        yield from _ancestors(replace)


def _begun(message: Message) -> str:
    """Return the status of a visit that is heard of for the first time."""
    if message.event == "A03" or message.get("PV1", 45) not in {"", NULL}:
        return "finished"
    if message.event == "A21":
        return "onleave"
    return "planned" if message.get("PV1", 2) == "P" else BEGINS.get(message.event, "in-progress")


def _says_nothing(status: str, event: str) -> bool:
    """Say whether there is nothing to cancel, or a visit that is still expected here has begun: it stays as it is."""
    if event in {"A05", "A14"}:
        return status in {"in-progress", "onleave"}
    if event in {"A27", "A38"}:
        return status != "planned"
    return event in {"A13", "A52", "A53"} and (event, status) not in UNDOES


def _moved(status: str, event: str, *, over: bool, anew: bool) -> str:
    """Return what an event makes of a visit's status; `anew`: it is later than all that was told of the visit."""
    if event == "A23":
        return "entered-in-error"
    if event == "A11" or (event in {"A27", "A38"} and status == "planned"):
        return "cancelled"
    if event in CANCELS:
        return UNDOES.get((event, status), status)
    if event == "A03" or over:
        return status if status in {"cancelled", "entered-in-error"} else "finished"
    if event in BEGINS and status in OVER:
        return BEGINS[event] if anew else status
    return MOVES.get((event, status), status)
