"""What stands in a patient's chart already, by what it states, and which documents stand behind each part of it."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from engine.fhir.json import JsonObject
from engine.interchange.network.patient360.deduplicate import FACTS, Key, in_error, key_of
from engine.interchange.network.patient360.record import Ledger, ProvenanceRecord, Words, hashes, read_record
from engine.interchange.rest.everything.chart import chart_keys, records
from engine.interchange.rest.everything.parameters import ChartPart
from engine.interchange.store.history import former_version
from engine.interchange.store.search.date import NEVER
from engine.interchange.store.transaction import StoredVersion, Transaction

WANTED: Final = ChartPart(types=frozenset(FACTS))
# Resources that one statement reads.
PAGE: Final = 500
Number = tuple[str, str, str, str]
# When something was stated, by which organization, in which document (its number): what is greater leads.
Turn = tuple[int, str, str]
FIRST: Final[Turn] = (NEVER, "", "")


@dataclass(frozen=True, slots=True)
class Backing:
    """A document that stands behind a resource; `version` is the one that it wrote, 0 for none."""

    turn: Turn
    version: int

    @property
    def organization(self) -> str:
        """Who it is from."""
        return self.turn[1]


@dataclass(slots=True, eq=False)
class ChartIndexEntry:
    """A resource of the chart that states a fact: as it is to be, and the version of it that is kept (0: none yet).

    `edited`: somebody here has changed what was imported, or it was not imported in the first place.
    """

    type: str
    id: str
    version: int
    resource: JsonObject
    key: Key
    backings: list[Backing] = field(default_factory=list)
    edited: bool = True

    @property
    def reference(self) -> str:
        """The resource as `Type/id`."""
        return f"{self.type}/{self.id}"

    @property
    def lead(self) -> Turn:
        """The newest statement of it."""
        return max((one.turn for one in self.backings), default=FIRST)

    def newest_of(self, organization: str) -> Turn:
        """Return the newest statement of an organization."""
        return max((one.turn for one in self.backings if one.organization == organization), default=FIRST)

    def only_of(self, organization: str) -> bool:
        """Say whether this organization, and no other, stands behind it."""
        return {one.organization for one in self.backings} == {organization}


@dataclass(slots=True)
class ChartIndex:
    """The index of a chart: by keys, by the numbers of sources, documents by number, and their imports.

    `errors` are the resources that were entered in error, by organization and key: they are no facts. `imports` are
    by the id of the DocumentReference, `hashes` lead from the SHA-256 of a document to that.
    """

    by_key: dict[Key, ChartIndexEntry] = field(default_factory=dict)
    errors: dict[tuple[str, Key], ChartIndexEntry] = field(default_factory=dict)
    by_number: dict[Number, list[ChartIndexEntry]] = field(default_factory=lambda: defaultdict(list))
    documents: dict[tuple[str, str], ChartIndexEntry] = field(default_factory=dict)
    hashes: dict[str, str] = field(default_factory=dict)
    imports: dict[str, Ledger] = field(default_factory=dict)

    def add(self, entry: ChartIndexEntry) -> None:
        """Know an entry by its key, and by its numbers for each organization that stands behind it."""
        organizations = {one.organization for one in entry.backings}
        if in_error(entry.resource):
            self.errors |= {(one, entry.key): entry for one in organizations}
        else:
            self.by_key.setdefault(entry.key, entry)
        for organization in organizations:
            for number in numbers(organization, entry.resource):
                if entry not in self.by_number[number]:
                    self.by_number[number].append(entry)

    def drop_key(self, entry: ChartIndexEntry) -> None:
        """Know an entry by its key no longer."""
        if self.by_key.get(entry.key) is entry:
            del self.by_key[entry.key]


def numbers(organization: str, resource: JsonObject) -> set[Number]:
    """Return the identifiers of a resource as those of an organization."""
    return {
        (organization, resource["resourceType"], one.get("system", ""), one["value"])
        for one in resource.get("identifier", ())
        if one.get("value")
    }


def read_standing(transaction: Transaction, patient: StoredVersion, words: Words) -> ChartIndex:
    """Return what stands in the chart of a live patient; a large chart takes a while."""
    keys = chart_keys(transaction, patient, WANTED)
    kept = [one for at in range(0, len(keys), PAGE) for one in records(transaction, patient, keys[at : at + PAGE])]
    standing = ChartIndex()
    entries: dict[str, tuple[StoredVersion, ChartIndexEntry]] = {}
    for stored in kept:
        resource = stored.resource()
        entry = ChartIndexEntry(stored.type, stored.id, stored.version, resource, key_of(resource))
        entries[entry.reference] = stored, entry
        if stored.type == "DocumentReference":
            _add_document(standing, transaction, entry, words)
    names = {entry.id: number for (_, number), entry in standing.documents.items()}
    for one in (record for ledger in standing.imports.values() for record in ledger.records):
        for target in one.targets:
            if target.reference in entries:
                turn = (target.stated_ms, one.organization, names.get(one.document_id, ""))
                entries[target.reference][1].backings.append(Backing(turn, target.version))
    for stored, entry in entries.values():
        written = max((one.version for one in entry.backings), default=0)
        entry.edited = not written or changed_here(transaction, stored, written)
        standing.add(entry)
    return standing


def _add_document(standing: ChartIndex, transaction: Transaction, entry: ChartIndexEntry, words: Words) -> None:
    number = entry.resource.get("masterIdentifier", {})
    if "value" in number:
        standing.documents[number.get("system", ""), number["value"]] = entry
    # A document that another one tells of has no hash of ours, and no Provenance of its own.
    own = hashes(entry.resource, words)
    if own and words.external in entry.resource["meta"].get("tag", ()):
        standing.hashes |= dict.fromkeys(own, entry.id)
        found = tuple(_records(transaction, entry, words))
        if found:
            standing.imports[entry.id] = Ledger(found)


def _records(transaction: Transaction, document: ChartIndexEntry, words: Words) -> Iterable[ProvenanceRecord]:
    for referrer in transaction.referrers(document.reference):
        found = read_record(words, referrer.resource(), referrer.updated_ms) if referrer.type == "Provenance" else None
        if found is not None and found.document_id == document.id:
            yield found


def changed_here(transaction: Transaction, stored: StoredVersion, written: int) -> bool:
    """Say whether a resource is not as an import wrote it last, as the version `written`.

    A merge of patients writes versions in which nothing but the patient is another one.
    """
    if written == stored.version:
        return False
    former = former_version(transaction, stored, written, 0)
    return former is None or _content(former.resource()) != _content(stored.resource())


def _content(resource: JsonObject) -> JsonObject:
    return {
        name: value for name, value in resource.items() if name not in {"meta", "subject", "patient", "beneficiary"}
    }
