"""A resource as a server last showed it, and the bounded cache of those of one type by identifier."""

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from engine.fhir.changes import NONE, Marks
from engine.fhir.plan import Identity
from engine.fhir.primitives import ID

PATIENT: Final = "Patient"

Body = dict[str, Any]
Slices = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True, repr=False)
class Stored:
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

    def remembered(self, marks: Marks = NONE) -> "Stored":
        """Return the resource as it is kept for later deliveries, with the digests of its lists that are known."""
        return Stored(self.logical_id, self.tag, self.body, fresh=False, type_=self.type_, marks=marks or self.marks)

    @property
    def if_match(self) -> tuple[tuple[str, str], ...]:
        """The header with which a write is refused once somebody else has written; none without a version."""
        return (("If-Match", self.tag),) if self.tag else ()


def stored(body: Any, headers: Mapping[str, str], type_: str = PATIENT) -> Stored | None:
    """Return the resource of an answer, or None where the body is none of the type with a legal id."""
    if not isinstance(body, dict) or body.get("resourceType") != type_:
        return None
    logical_id = body.get("id")
    if not isinstance(logical_id, str) or not ID.fullmatch(logical_id):
        return None
    meta = body.get("meta")
    version = meta.get("versionId") if isinstance(meta, dict) else None
    tag = f'W/"{version}"' if isinstance(version, str) and ID.fullmatch(version) else headers.get("etag", "")
    return Stored(logical_id, tag, body, type_=type_)


def id_of(location: str, type_: str = PATIENT) -> str:
    """Return the logical id in a Location header, empty where there is none."""
    parts = location.split("/_history/", 1)[0].rstrip("/").rsplit("/", 2)
    return parts[-1] if len(parts) == 3 and parts[-2] == type_ and ID.fullmatch(parts[-1]) else ""


class Cache:
    """The last body of the resources of one type met most recently, by identifier; what each source owns beside it.

    Bounded by count: at most `most` resources, each under at most `KEYS` identifiers.
    """

    KEYS: Final = 16

    def __init__(self, most: int = 10_000) -> None:
        self.most = most
        self._patients: OrderedDict[str, tuple[Stored, tuple[Identity, ...], dict[str, Slices]]] = OrderedDict()
        self._ids: dict[Identity, str] = {}

    def find(self, identities: Sequence[Identity]) -> Stored | None:
        """Return the one Patient that all the identifiers are known to stand for, else None."""
        found = {self._ids.get(identity) for identity in identities}
        logical_id = found.pop() if len(found) == 1 else None
        if logical_id is None:
            return None
        self._patients.move_to_end(logical_id)
        return self._patients[logical_id][0]

    def owned(self, logical_id: str, source: str) -> Slices | None:
        """Return what a source owns of a Patient, None where the cache does not know."""
        held = self._patients.get(logical_id)
        return held[2].get(source) if held else None

    def put(self, patient: Stored, identities: Iterable[Identity], source: str, owned: Slices) -> None:
        """Remember a Patient under the identifiers that stand for it."""
        keys = tuple(identities)[: self.KEYS]
        held = self._patients.get(patient.logical_id)
        if held is None or held[1] != keys:
            self.drop(patient.logical_id)
            for key in keys:
                self._move(key, patient.logical_id)
        patient = patient.remembered() if patient.fresh else patient
        self._patients[patient.logical_id] = (patient, keys, {**(held[2] if held else {}), source: owned})
        self._patients.move_to_end(patient.logical_id)
        while len(self._patients) > self.most:
            self.drop(next(iter(self._patients)))

    def drop(self, logical_id: str) -> None:
        """Forget a Patient."""
        held = self._patients.pop(logical_id, None)
        for key in held[1] if held else ():
            self._ids.pop(key, None)

    def forget(self, identities: Iterable[Identity]) -> None:
        """Forget the Patients that stand behind identifiers."""
        for identity in identities:
            logical_id = self._ids.get(identity)
            if logical_id is not None:
                self.drop(logical_id)

    def __len__(self) -> int:
        return len(self._patients)

    def _move(self, key: Identity, logical_id: str) -> None:
        other = self._ids.get(key)
        if other is not None and other != logical_id:
            self.drop(other)
        self._ids[key] = logical_id
