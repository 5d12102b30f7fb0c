"""What one delivery has come to know: what is to be remembered of it, and the resources of its plan."""

from collections.abc import Mapping
from typing import TypeVar

from engine.deliver.verdict import Inherited, KnownIdentifier, Merged, Owned, WrittenVersion
from engine.fhir.plan import Identity, Keep

K = TypeVar("K")
V = TypeVar("V")


class Learned:
    """The knowledge of one delivery; `Exchange` says what each part of it is.

    `vacant`: references that were read in this delivery and are free, and whether a record there was deleted. `proven`:
    versions that an operation wrote, as reading before and after it has shown.
    """

    def __init__(self) -> None:
        self.notes: dict[str, None] = {}
        self.known: dict[Identity, KnownIdentifier] = {}
        self.owned: dict[str, Owned] = {}
        self.merges: list[Merged] = []
        self.inherited: list[Inherited] = []
        self.proven: list[WrittenVersion] = []
        self.deleted = False
        self.heard = False
        self.references: dict[str, str] = {}
        self.formerly: dict[Identity, Identity] = {}
        self.waiting: dict[str, Keep] = {}
        self.trusted: set[str] = set()
        self.pointed: set[str] = set()
        self.unfound: set[str] = set()
        self.made: set[str] = set()
        self.retired: set[Identity] = set()
        self.vacant: dict[str, bool] = {}

    def unlearn(self) -> None:
        """Forget the resources of the plan; what was carried out is still to be remembered."""
        self.references, self.formerly, self.waiting = {}, {}, {}
        self.trusted, self.pointed, self.unfound, self.made = set(), set(), set(), set()
        self.retired, self.vacant = set(), {}
        self.deleted = False

    def adopt(self, other: "Learned") -> None:
        """Take over what another one has come to know; not what it sent."""
        self.notes, self.known, self.owned = dict(other.notes), dict(other.known), dict(other.owned)
        self.references, self.waiting = dict(other.references), dict(other.waiting)
        self.formerly, self.trusted = dict(other.formerly), set(other.trusted)
        self.pointed, self.unfound, self.made = set(other.pointed), set(other.unfound), self.made | other.made
        self.retired = set(other.retired)
        self.deleted, self.heard = other.deleted, self.heard or other.heard

    def learn(self, other: "Learned", since: "Learned") -> None:
        """Add what another one has come to know since the state `since`."""
        self.notes |= _changed(other.notes, since.notes)
        self.known |= _changed(other.known, since.known)
        self.owned |= _changed(other.owned, since.owned)
        self.references |= _changed(other.references, since.references)
        self.waiting |= _changed(other.waiting, since.waiting)
        self.formerly |= _changed(other.formerly, since.formerly)
        self.trusted |= other.trusted - since.trusted
        self.pointed |= other.pointed - since.pointed
        self.unfound |= other.unfound - since.unfound
        self.retired |= other.retired

    def mentions(self, reference: str, since: "Learned") -> bool:
        """Say whether anything that was learned since then is about a resource, or a list within it."""
        logical_id = reference.partition("/")[2]
        return (
            reference in _changed(self.references, since.references).values()
            or any(one.logical_id == logical_id for one in _changed(self.known, since.known).values())
            or any(place.partition(" ")[0] == reference for place in _changed(self.owned, since.owned))
        )

    def note(self, *codes: str) -> None:
        """Add codes to the notes of this delivery, each once."""
        self.notes.update(dict.fromkeys(codes))


def _changed(now: Mapping[K, V], before: Mapping[K, V]) -> dict[K, V]:
    """Return what is new in a table, or has another value."""
    return {key: value for key, value in now.items() if key not in before or before[key] is not value}
