"""A resource as a server last showed it, and the bounded cache of those of one type by identifier."""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import orjson

from engine.errors import InvolvedRecord
from engine.fhir.changes import NONE, Marks, still
from engine.fhir.json import compact_bytes
from engine.fhir.patient import current_numbers, number_of, person
from engine.fhir.plan import Identity
from engine.fhir.primitives import ID

PATIENT: Final = "Patient"
# How long a body is remembered after the answer that showed it: longer than a burst has use for it, and no longer.
LIFE_SECONDS: Final = 15.0
# The same of what is only referred to, and never written upon.
REFERRED_SECONDS: Final = 60.0

Body = dict[str, Any]
Slices = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True, repr=False)
class ServerResource:
    """A resource of a server; `tag` is the value for If-Match, empty where the server gave no version.

    `fresh`: read in this delivery, not remembered from an earlier answer. `marks`: digests of its lists that are known.
    """

    logical_id: str
    tag: str
    body: Body
    fresh: bool = True
    type_: str = PATIENT
    marks: Marks = field(default_factory=lambda: NONE)

    @property
    def reference(self) -> str:
        """The resource's name, `Patient/<id>`."""
        return f"{self.type_}/{self.logical_id}"

    def remembered(self, marks: Marks = NONE) -> "ServerResource":
        """Return the resource as it is kept for later deliveries, with the digests of its lists that are known."""
        return ServerResource(
            self.logical_id, self.tag, self.body, fresh=False, type_=self.type_, marks=marks or self.marks
        )

    def same_as(self, other: "ServerResource") -> bool:
        """Say whether both may be one resource: they have a number in common, or one of them has none."""
        mine, theirs = numbers(self.body), numbers(other.body)
        return not (mine and theirs) or not mine.isdisjoint(theirs)

    def older_than(self, other: "ServerResource") -> bool:
        """Say whether this is an earlier version, as far as numbers of versions and times of update tell."""
        mine, theirs = _version(self.tag), _version(other.tag)
        if mine is not None and theirs is not None and mine != theirs:
            return mine < theirs
        return self.updated < other.updated if self.updated and other.updated else False

    def follows(self, other: "ServerResource") -> bool:
        """Say whether this is the very next version, as far as numbers of versions tell."""
        mine, theirs = _version(self.tag), _version(other.tag)
        return mine is not None and theirs is not None and mine == theirs + 1

    @property
    def version(self) -> int | None:
        """The number of its version; None where it has none."""
        return _version(self.tag)

    @property
    def updated(self) -> str:
        """When the server last wrote it, as it says; empty where it does not."""
        meta = self.body.get("meta")
        said = meta.get("lastUpdated") if isinstance(meta, dict) else None
        return said if isinstance(said, str) else ""

    @property
    def if_match(self) -> tuple[tuple[str, str], ...]:
        """The header with which a write is refused once somebody else has written; none without a version."""
        return (("If-Match", self.tag),) if self.tag else ()


def involved(role: str, resource: ServerResource) -> InvolvedRecord:
    """Return a record as `HeldDeliveryError` carries it; of a Patient with name and birth date."""
    if resource.type_ == PATIENT:
        found = current_numbers(resource.body)
        return resource.reference, role, tuple(map("|".join, found)), _person(resource.body)
    return resource.reference, role, tuple(sorted(map("|".join, numbers(resource.body)))), ""


def _person(body: Body) -> str:
    who = person(body)
    parts = (f"{who.family}, {who.given}".strip(", "), f"born {who.birth_date}" if who.birth_date else "")
    return ", ".join(part for part in parts if part)


def numbers(body: Body) -> set[Identity]:
    """Return the identifiers of a resource, of whatever use."""
    listed = body.get("identifier")
    items = listed if isinstance(listed, list) else [listed]  # some types have at most one
    return {number_of(item) for item in items if isinstance(item, dict) and item.get("value")}


def _version(tag: str) -> int | None:
    digits = tag[3:-1] if tag.startswith('W/"') else ""
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 19 else None


def stored(body: Any, headers: Mapping[str, str], type_: str = PATIENT) -> ServerResource | None:
    """Return the resource of an answer, or None where the body is none of the type with a legal id."""
    if not isinstance(body, dict) or body.get("resourceType") != type_:
        return None
    logical_id = body.get("id")
    if not isinstance(logical_id, str) or not ID.fullmatch(logical_id):
        return None
    meta = body.get("meta")
    version = meta.get("versionId") if isinstance(meta, dict) else None
    tag = f'W/"{version}"' if isinstance(version, str) and ID.fullmatch(version) else headers.get("etag", "")
    return ServerResource(logical_id, tag, body, type_=type_)


def id_of(location: str, type_: str = PATIENT) -> str:
    """Return the logical id in a Location header, empty where there is none."""
    parts = location.split("/_history/", 1)[0].rstrip("/").rsplit("/", 2)
    return parts[-1] if len(parts) == 3 and parts[-2] == type_ and ID.fullmatch(parts[-1]) else ""


class _Held(NamedTuple):
    """A resource that is remembered, the identifiers that stand for it, and what each source owns of it."""

    patient: ServerResource
    keys: tuple[Identity, ...]
    owned: dict[str, Slices]
    at: float
    era: int

    def packed(self) -> "_Packed":
        """Return the same as text, a tenth of the size."""
        body = self.patient.body
        marks = {element: digests for element, (_items, digests) in still(self.patient.marks, body).items()}
        owned = {source: dict(slices) for source, slices in self.owned.items()}
        content = compact_bytes(orjson.dumps((body, marks, owned)))
        return _Packed(self.patient.tag, self.patient.type_, self.keys, content, self.at, self.era)


class _Packed(NamedTuple):
    """What is held of a resource that was not met lately."""

    tag: str
    type_: str
    keys: tuple[Identity, ...]
    content: bytes
    at: float
    era: int

    def unpacked(self, logical_id: str) -> _Held:
        """Return what was packed."""
        body, digests, listed = orjson.loads(self.content)
        marks = {element: (body[element], tuple(of_items)) for element, of_items in digests.items()}
        owned: dict[str, Slices] = {
            source: {name: tuple(of_slice) for name, of_slice in slices.items()} for source, slices in listed.items()
        }
        patient = ServerResource(logical_id, self.tag, body, fresh=False, type_=self.type_, marks=marks)
        return _Held(patient, self.keys, owned, self.at, self.era)


class Cache:
    """The last body of the resources of one type met most recently, by identifier; with it what each source owns.

    Bounded by count: at most `most` resources, each under at most `KEYS` identifiers. Those met last, at most `whole`,
    are at hand as they are (some 25 KB each), the others packed (some 2.5 KB). A body is a guess at what the server has
    now, so it is given out for `LIFE_SECONDS` only, and not after a `doubt`; `ticks` is a monotonic clock.
    """

    KEYS: Final = 16

    def __init__(self, most: int = 10_000, whole: int = 1_000, *, ticks: Callable[[], float] = lambda: 0.0) -> None:
        self.most = most
        self.ticks = ticks
        self._era = 0
        self._most_whole = whole
        self._whole: OrderedDict[str, _Held] = OrderedDict()
        self._packed: OrderedDict[str, _Packed] = OrderedDict()
        self._ids: dict[Identity, str] = {}

    def find(self, identities: Sequence[Identity]) -> ServerResource | None:
        """Return the one Patient that all the identifiers are known to stand for, else None."""
        logical_id = self.stands_for(identities)
        held = None if logical_id is None else self._held(logical_id)
        if held is None:
            return None
        if not held.patient.body:
            return held.patient if self.ticks() - held.at <= REFERRED_SECONDS else None
        known = held.era == self._era and self.ticks() - held.at <= LIFE_SECONDS
        return held.patient if known else None

    def holds(self, patient: ServerResource) -> bool:
        """Say whether a Patient that was found is remembered still, in the version in which it was found."""
        held = self._held(patient.logical_id)
        return held is not None and held.era == self._era and held.patient.tag == patient.tag

    def stands_for(self, identities: Sequence[Identity]) -> str | None:
        """Return the id of the one Patient that all the identifiers were last known to stand for, else None."""
        found = {self._ids.get(identity) for identity in identities}
        return found.pop() if len(found) == 1 else None

    def owned(self, logical_id: str, source: str) -> Slices | None:
        """Return what a source owns of a Patient, None where the cache does not know."""
        held = self._held(logical_id)
        return held.owned.get(source) if held else None

    def last(self, logical_id: str) -> ServerResource | None:
        """Return a Patient as it is remembered, however long ago it was met; None where it is not."""
        held = self._held(logical_id)
        return held.patient if held else None

    def met(self, patient: ServerResource) -> bool:
        """Forget what is remembered of a Patient that the server has otherwise; True where the server has gone back.

        Another version may have been written by another node of this engine: what the source owns is not what it
        was, either. An earlier version, or another one's record under the id, is that of a server that was restored.
        """
        before = self.last(patient.logical_id)
        if before is None:
            return False
        same = patient.same_as(before)
        if same and patient.tag == before.tag:
            return False
        self.drop(patient.logical_id)
        return not same or patient.older_than(before)

    def was_given(self, made: ServerResource) -> bool:
        """Say whether the id of a resource that was just created is known as that of another one.

        The same version under the same number is no other: a delivery beside this one met it before it was answered.
        """
        before = self.last(made.logical_id)
        numbered = any(self.stands_for((number,)) == made.logical_id for number in numbers(made.body))
        return before is not None and not (numbered and before.tag == made.tag)

    def put(self, patient: ServerResource, identities: Iterable[Identity], source: str, owned: Slices) -> None:
        """Remember a Patient under the identifiers that stand for it."""
        keys = tuple(identities)[: self.KEYS]
        held = self._held(patient.logical_id)
        if held is None or held.keys != keys:
            self.drop(patient.logical_id)
            for key in keys:
                self._move(key, patient.logical_id)
        patient = patient.remembered() if patient.fresh else patient
        self._keep(_Held(patient, keys, {**(held.owned if held else {}), source: owned}, self.ticks(), self._era))

    def drop(self, logical_id: str) -> None:
        """Forget a Patient."""
        held = self._whole.pop(logical_id, None) or self._packed.pop(logical_id, None)
        for key in held.keys if held else ():
            self._ids.pop(key, None)

    def doubt(self) -> None:
        """Give out no body that was met before now; identities and ownership are known still."""
        self._era += 1

    def clear(self) -> None:
        """Forget all of them."""
        for kept in (self._whole, self._packed, self._ids):
            kept.clear()

    def forget(self, identities: Iterable[Identity]) -> None:
        """Forget the Patients that stand behind identifiers."""
        for identity in identities:
            logical_id = self._ids.get(identity)
            if logical_id is not None:
                self.drop(logical_id)

    def __len__(self) -> int:
        return len(self._whole) + len(self._packed)

    def _held(self, logical_id: str) -> _Held | None:
        """Return what is held of a Patient, which is now the one met last."""
        held = self._whole.get(logical_id)
        if held is not None:
            self._whole.move_to_end(logical_id)
        elif (packed := self._packed.pop(logical_id, None)) is not None:
            held = packed.unpacked(logical_id)
            self._keep(held)
        return held

    def _keep(self, held: _Held) -> None:
        """Put what was met last before all others; the oldest is packed, the oldest of those forgotten."""
        self._whole[held.patient.logical_id] = held
        self._whole.move_to_end(held.patient.logical_id)
        if len(self._whole) > self._most_whole:
            oldest, whole = self._whole.popitem(last=False)
            self._packed[oldest] = whole.packed()
        while len(self) > self.most:
            self.drop(next(iter(self._packed or self._whole)))

    def _move(self, key: Identity, logical_id: str) -> None:
        other = self._ids.get(key)
        if other is not None and other != logical_id:
            self.drop(other)
        self._ids[key] = logical_id
