"""The index of a patient's chart: its resources by what they state, and the documents that support each."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from engine.fhir.json import JsonObject
from engine.interchange.network.patient360.deduplicate import FACTS, Key, in_error, key_of
from engine.interchange.network.patient360.record import Ledger, ProvenanceRecord, Words, hashes, read_record
from engine.interchange.rest.everything import ChartPart, chart_keys, records
from engine.interchange.store.history import former_version
from engine.interchange.store.search.date import NEVER
from engine.interchange.store.transaction import StoredVersion, Transaction

WANTED: Final = ChartPart(types=frozenset(FACTS))
# Resources that one statement reads.
PAGE: Final = 500
Number = tuple[str, str, str, str]
# The time of a statement, its organization, and the number of its document: the greatest leads.
Turn = tuple[int, str, str]
FIRST: Final[Turn] = (NEVER, "", "")


@dataclass(frozen=True, slots=True)
class Backing:
    """A document that supports a resource; `version` is the one that it wrote, 0 for none."""

    turn: Turn
    version: int

    @property
    def organization(self) -> str:
        """The organization of the document."""
        return self.turn[1]


@dataclass(slots=True, eq=False)
class ChartIndexEntry:
    """A resource of the chart that states a fact: its planned content, and its stored version (0: none yet).

    `edited`: it was changed here after the import, or was not imported.
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
        """True if this organization alone supports it."""
        return {one.organization for one in self.backings} == {organization}


@dataclass(slots=True)
class ChartIndex:
    """The index of a chart: by keys, by the numbers of sources, documents by number, and their imports.

    `errors` are the resources that were entered in error, by organization and key. `imports` are by the id of the
    DocumentReference; `hashes` map the SHA-256 of a document to that id.
    """

    by_key: dict[Key, ChartIndexEntry] = field(default_factory=dict)
    errors: dict[tuple[str, Key], ChartIndexEntry] = field(default_factory=dict)
    by_number: dict[Number, list[ChartIndexEntry]] = field(default_factory=lambda: defaultdict(list))
    documents: dict[tuple[str, str], ChartIndexEntry] = field(default_factory=dict)
    hashes: dict[str, str] = field(default_factory=dict)
    imports: dict[str, Ledger] = field(default_factory=dict)

    def add(self, entry: ChartIndexEntry) -> None:
        """Index an entry by its key, and by its numbers for each organization that supports it."""
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
        """Remove an entry from the index by key."""
        if self.by_key.get(entry.key) is entry:
            del self.by_key[entry.key]


def numbers(organization: str, resource: JsonObject) -> set[Number]:
    """Return the identifiers of a resource, qualified by an organization."""
    return {
        (organization, resource["resourceType"], identifier.get("system", ""), identifier["value"])
        for identifier in resource.get("identifier", ())
        if identifier.get("value")
    }


def read_chart_index(transaction: Transaction, patient: StoredVersion, words: Words) -> ChartIndex:
    """Return the index of a live patient's chart; a large chart takes a while."""
    keys = chart_keys(transaction, patient, WANTED)
    kept = [one for at in range(0, len(keys), PAGE) for one in records(transaction, patient, keys[at : at + PAGE])]
    index = ChartIndex()
    entries: dict[str, tuple[StoredVersion, ChartIndexEntry]] = {}
    for stored in kept:
        resource = stored.resource()
        entry = ChartIndexEntry(stored.type, stored.id, stored.version, resource, key_of(resource))
        entries[entry.reference] = stored, entry
        if stored.type == "DocumentReference":
            _add_document(index, transaction, entry, words)
    names = {entry.id: number for (_, number), entry in index.documents.items()}
    for one in (record for ledger in index.imports.values() for record in ledger.records):
        for target in one.targets:
            if target.reference in entries:
                turn = (target.stated_ms, one.organization, names.get(one.document_id, ""))
                entries[target.reference][1].backings.append(Backing(turn, target.version))
    for stored, entry in entries.values():
        written = max((one.version for one in entry.backings), default=0)
        entry.edited = not written or changed_here(transaction, stored, written)
        index.add(entry)
    return index


def _add_document(index: ChartIndex, transaction: Transaction, entry: ChartIndexEntry, words: Words) -> None:
    number = entry.resource.get("masterIdentifier", {})
    if "value" in number:
        index.documents[number.get("system", ""), number["value"]] = entry
    # A DocumentReference that came as a fact has no hash of ours, and no Provenance of its own.
    own = hashes(entry.resource, words)
    if own and words.external in entry.resource["meta"].get("tag", ()):
        index.hashes |= dict.fromkeys(own, entry.id)
        own_records = tuple(_records(transaction, entry, words))
        if own_records:
            index.imports[entry.id] = Ledger(own_records)


def _records(transaction: Transaction, document: ChartIndexEntry, words: Words) -> Iterable[ProvenanceRecord]:
    for referrer in transaction.referrers(document.reference):
        record = read_record(words, referrer.resource(), referrer.updated_ms) if referrer.type == "Provenance" else None
        if record is not None and record.document_id == document.id:
            yield record


def changed_here(transaction: Transaction, stored: StoredVersion, written: int) -> bool:
    """True if a resource has other content than the version `written`, the last one of an import.

    A merge of patients changes the reference to the patient only, which does not count.
    """
    if written == stored.version:
        return False
    former = former_version(transaction, stored, written, 0)
    return former is None or _content(former.resource()) != _content(stored.resource())


def _content(resource: JsonObject) -> JsonObject:
    return {
        name: value for name, value in resource.items() if name not in {"meta", "subject", "patient", "beneficiary"}
    }
