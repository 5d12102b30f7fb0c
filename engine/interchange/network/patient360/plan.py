"""Plans the import of a document into a chart: statements of a fact combined, its resource, and the writes.

- A fact with the key of a resource is that resource. A resource that was entered here, or changed here after its
  import, is not changed: the document only supports it. Else the newest statement leads, and the others add details
  that it lacks; a fact of one organization alone is as its newest document states it.
- A fact without such a resource may be a later version of a statement of the same organization: with the same number
  and principal coding, and for an event the same date. It replaces that, unless others state it too.
- An older statement never replaces a newer one. What a source retracts is entered in error, unless others state it;
  so is a statement that its source has corrected to one that another resource states already.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, NamedTuple

from engine.fhir.json import Json, JsonObject
from engine.interchange.network.patient360.chart_index import (
    Backing,
    ChartIndex,
    ChartIndexEntry,
    Number,
    Turn,
    numbers,
)
from engine.interchange.network.patient360.deduplicate import ERROR, EVENTS, FACTS, Key, in_error, key_of
from engine.interchange.network.patient360.own import Incoming, references, resolved
from engine.interchange.network.patient360.record import ProvenanceTarget, stated

# Details of a fact that are not part of its key: kept if the newest statement lacks them.
DETAILS: Final = (
    "bodySite",
    "category",
    "criticality",
    "doseQuantity",
    "expirationDate",
    "interpretation",
    "lotNumber",
    "manufacturer",
    "method",
    "note",
    "performer",
    "priority",
    "reaction",
    "reasonCode",
    "recorder",
    "referenceRange",
    "requester",
    "route",
    "serviceType",
    "severity",
    "site",
    "stage",
)
# Lists to which each statement adds what the others lack.
UNITED: Final = ("identifier", "hasMember", "result")
# The types whose 'entered in error' is a concept, with its system.
CONCEPTS: Final = {
    "AllergyIntolerance": "http://terminology.hl7.org/CodeSystem/allergyintolerance-verification",
    "Condition": "http://terminology.hl7.org/CodeSystem/condition-ver-status",
}


def led(statement: JsonObject, before: JsonObject) -> JsonObject:
    """Return the new statement of a fact's only source, with the former identifiers too."""
    return {**statement, "meta": _meta(statement, before), **_united(statement, before, ("identifier",))}


def filled(lead: JsonObject, other: JsonObject) -> JsonObject:
    """Return the leading statement, with the details that only the other one has."""
    details: JsonObject = {name: other[name] for name in DETAILS if name in other and name not in lead}
    return {**lead, **details, "meta": _meta(lead, other), **_united(lead, other, UNITED), **_coded(lead, other)}


def withdrawn(resource: JsonObject) -> JsonObject:
    """Return a resource as entered in error."""
    name = resource["resourceType"]
    element = FACTS[name].error
    if name not in CONCEPTS:
        return {**resource, element: ERROR}
    # An allergy or problem that was entered in error has no clinical status (ait-2, con-5).
    rest = {key: value for key, value in resource.items() if key != "clinicalStatus"}
    return {**rest, element: {"coding": [{"system": CONCEPTS[name], "code": ERROR}]}}


def differs(one: JsonObject, other: JsonObject) -> bool:
    """True if two states of a resource differ in more than id, version and source."""
    return _stated(one) != _stated(other)


def _stated(resource: JsonObject) -> JsonObject:
    return {**resource, "meta": {**_meta(resource, resource), "source": ""}, "id": ""}


def _meta(lead: JsonObject, other: JsonObject) -> JsonObject:
    own = {name: value for name, value in lead.get("meta", {}).items() if name not in {"versionId", "lastUpdated"}}
    others = other.get("meta", {})
    joined = {name: _joined(own.get(name, []), others.get(name, [])) for name in ("profile", "security", "tag")}
    return own | {name: value for name, value in joined.items() if value}


def _united(lead: JsonObject, other: JsonObject, names: Iterable[str]) -> JsonObject:
    given = (name for name in names if isinstance(other.get(name), list))
    return {name: _joined(lead.get(name, []), other[name]) for name in given}


def _coded(lead: JsonObject, other: JsonObject) -> JsonObject:
    """Return the element of the principal coding with the codings of both, so that a search finds each."""
    name = FACTS[lead["resourceType"]].coding[0]
    one, two = lead.get(name), other.get(name)
    if not (isinstance(one, dict) and isinstance(two, dict) and "coding" in one and "coding" in two):
        return {}
    known = {(coding.get("system"), coding.get("code")) for coding in one["coding"]}
    more = [coding for coding in two["coding"] if (coding.get("system"), coding.get("code")) not in known]
    return {name: {**one, "coding": [*one["coding"], *more]}} if more else {}


def _joined(one: list[Json], other: list[Json]) -> list[Json]:
    return [*one, *(part for part in other if part not in one)]


class FactOutcome(StrEnum):
    """The outcome of a fact, for the counters."""

    ADDED = "added"
    UPDATED = "updated"
    KNOWN = "known"
    KEPT = "kept"
    WITHDRAWN = "withdrawn"


class FactPlacement(NamedTuple):
    """The resource of a fact, None for none; the fact leads there, or adds details."""

    entry: ChartIndexEntry | None
    came: FactOutcome
    leads: bool = False
    adds: bool = False


@dataclass(slots=True)
class ImportStep:
    """One resource to write, and the version that it replaces, 0 for a new one."""

    entry: ChartIndexEntry
    content: JsonObject
    replaces: int


class ImportedDocument(NamedTuple):
    """The organization of a document, and its number, the same at each import."""

    organization: str
    number: str


@dataclass(slots=True)
class ImportPlan:
    """The writes of the import of one document; the target of a reference comes first."""

    index: ChartIndex
    source: ImportedDocument
    new_id: Callable[[], str]
    steps: dict[str, ImportStep] = field(default_factory=dict)
    targets: dict[str, ProvenanceTarget] = field(default_factory=dict)
    counts: Counter[FactOutcome] = field(default_factory=Counter)

    def lead(self, entry: ChartIndexEntry, content: JsonObject, stated_ms: int) -> None:
        """Put the DocumentReference first; its document supports it too."""
        self.index.drop_key(entry)
        entry.resource, entry.key = content, key_of(content)
        self.index.add(entry)
        step = ImportStep(entry, content, entry.version)
        entry.version += 1
        self.steps = {entry.reference: step, **self.steps}
        self.targets = {entry.reference: ProvenanceTarget(entry.reference, entry.version, stated_ms), **self.targets}


def make_plan(
    index: ChartIndex, facts: tuple[Incoming, ...], source: ImportedDocument, new_id: Callable[[], str]
) -> ImportPlan:
    """Plan a document's facts; `index` is then the index of the chart after the import."""
    plan = ImportPlan(index, source, new_id)
    facts = _identified(facts)
    taken: set[int] = set()
    moves: list[FactPlacement] = []
    for fact in facts:
        key = key_of(fact.resource)
        prior = _prior(index, fact, key, source.organization)
        if prior is not None and id(prior) in taken and _may_replace(prior, _turn(plan, fact)):
            prior = None
        move = _choose(plan, fact, key, prior)
        if move.entry is not None:
            taken.add(id(move.entry))
        moves.append(move)
    table = {fact.urn: move.entry.reference for fact, move in zip(facts, moves, strict=True) if move.entry is not None}
    for fact, move in zip(facts, moves, strict=True):
        if move.entry is None:
            plan.counts[move.came] += 1
        else:
            _carry_out(plan, move.entry, move, resolved(fact.resource, table), fact.stated_at)
    plan.steps = _in_order(plan.steps)
    for step in plan.steps.values():
        step.entry.version = step.replaces + 1
    return plan


def _choose(plan: ImportPlan, fact: Incoming, key: Key, prior: ChartIndexEntry | None) -> FactPlacement:
    turn = _turn(plan, fact)
    same = plan.index.by_key.get(key)
    error = in_error(fact.resource)
    if same is not None and (not error or same.id in plan.index.imports):
        if prior is not None and prior is not same and _may_replace(prior, turn):
            _withdraw(plan, prior, fact.stated_at)
        # An imported document is not changed by a DocumentReference of another document.
        return FactPlacement(same, FactOutcome.KNOWN) if same.id in plan.index.imports else _restated(same, turn)
    if prior is None and error and same is not None and same.only_of(turn[1]):
        prior = same
    prior = prior or _retracted(plan.index.errors.get((turn[1], key)), turn, error=error)
    if prior is None or not (prior.edited or turn <= prior.newest_of(turn[1]) or prior.only_of(turn[1])):
        if prior is not None and error:
            return FactPlacement(None, FactOutcome.KNOWN)
        entry = ChartIndexEntry(key.type, plan.new_id(), 0, fact.resource, key, [Backing(turn, 1)], edited=False)
        plan.index.add(entry)
        return FactPlacement(entry, FactOutcome.WITHDRAWN if error else FactOutcome.ADDED, leads=True)
    if prior.edited:
        return FactPlacement(prior, FactOutcome.KEPT)
    if not _may_replace(prior, turn):
        return FactPlacement(prior, FactOutcome.KNOWN)
    plan.index.drop_key(prior)
    prior.key = key
    if not error:
        plan.index.by_key[key] = prior
    return FactPlacement(prior, FactOutcome.KNOWN, leads=True)


def _retracted(entry: ChartIndexEntry | None, turn: Turn, *, error: bool) -> ChartIndexEntry | None:
    """Return the entry in error that a statement of the same fact is about; None if the same document made both."""
    return entry if entry is not None and (error or entry.edited or turn != entry.newest_of(turn[1])) else None


def _restated(same: ChartIndexEntry, turn: Turn) -> FactPlacement:
    """Return the placement of a fact that a resource states already."""
    if same.edited:
        imported = any(one.version for one in same.backings)
        return FactPlacement(same, FactOutcome.KEPT if imported and turn > same.lead else FactOutcome.KNOWN)
    if turn > same.lead:
        return FactPlacement(same, FactOutcome.KNOWN, leads=True)
    return FactPlacement(same, FactOutcome.KNOWN, adds=turn == same.lead or not same.only_of(turn[1]))


def _may_replace(prior: ChartIndexEntry, turn: Turn) -> bool:
    return not prior.edited and turn > prior.newest_of(turn[1]) and prior.only_of(turn[1])


def _turn(plan: ImportPlan, fact: Incoming) -> Turn:
    return stated(fact.stated_at), *plan.source


def _prior(index: ChartIndex, fact: Incoming, key: Key, organization: str) -> ChartIndexEntry | None:
    """Return the resource of an earlier version of a fact; None for none or several."""
    entries = {
        id(entry): entry
        for number in numbers(organization, fact.resource)
        for entry in index.by_number.get(number, ())
        if entry.key.coding == key.coding and (key.type not in EVENTS or entry.key.date == key.date)
    }
    return next(iter(entries.values())) if len(entries) == 1 else None


def _carry_out(plan: ImportPlan, entry: ChartIndexEntry, move: FactPlacement, said: JsonObject, stated_at: str) -> None:
    before, came = entry.resource, move.came
    turn = (stated(stated_at), *plan.source)
    if entry.version == 0 and entry.reference not in plan.steps:
        entry.resource = said
        plan.steps[entry.reference] = ImportStep(entry, said, 0)
    elif move.leads or move.adds:
        alone = move.leads and entry.only_of(plan.source.organization)
        lead, other = (said, before) if move.leads else (before, said)
        entry.resource = led(said, before) if alone else filled(lead, other)
        if differs(entry.resource, before):
            came = FactOutcome.UPDATED if entry.version else came
            plan.steps.setdefault(entry.reference, ImportStep(entry, said, entry.version)).content = entry.resource
    plan.counts[came] += 1
    _add_backing(plan, entry, turn, stated_at, kept=move.came is FactOutcome.KEPT)


def _withdraw(plan: ImportPlan, entry: ChartIndexEntry, stated_at: str) -> None:
    """Enter in error a statement that its only source has corrected to one that another resource states."""
    entry.resource = withdrawn(entry.resource)
    plan.steps[entry.reference] = ImportStep(entry, entry.resource, entry.version)
    plan.counts[FactOutcome.WITHDRAWN] += 1
    _add_backing(plan, entry, (stated(stated_at), *plan.source), stated_at, kept=False)


def _add_backing(plan: ImportPlan, entry: ChartIndexEntry, turn: Turn, stated_at: str, *, kept: bool) -> None:
    """Add the document as a backing of a resource, with the version that it writes, and index its new content."""
    step = plan.steps.get(entry.reference)
    version = step.replaces + 1 if step is not None else 0
    plan.targets[entry.reference] = ProvenanceTarget(entry.reference, version, turn[0], stated_at, kept)
    plan.index.drop_key(entry)
    entry.backings.append(Backing(turn, version))
    entry.key = key_of(entry.resource)
    plan.index.add(entry)


def _identified(facts: Iterable[Incoming]) -> tuple[Incoming, ...]:
    """Return facts without the numbers that a document gives to several of them: these identify none."""
    facts = tuple(facts)
    counted = Counter(number for fact in facts for number in numbers("", fact.resource))
    if not any(count > 1 for count in counted.values()):
        return facts
    return tuple(replace(fact, resource=_without_numbers(fact.resource, counted)) for fact in facts)


def _without_numbers(resource: JsonObject, counted: Counter[Number]) -> JsonObject:
    kept = [identifier for identifier in resource.get("identifier", ()) if _count(resource, identifier, counted) < 2]
    rest = {name: value for name, value in resource.items() if name != "identifier"}
    return {**rest, "identifier": kept} if kept else rest


def _count(resource: JsonObject, identifier: JsonObject, counted: Counter[Number]) -> int:
    return counted["", resource["resourceType"], identifier.get("system", ""), identifier.get("value", "")]


def _in_order(steps: dict[str, ImportStep]) -> dict[str, ImportStep]:
    """Return the steps with the targets of references first; the order within circles is unchanged."""
    named = {name: [one for one in references(step.content) if one in steps] for name, step in steps.items()}
    ordered: dict[str, ImportStep] = {}
    seen: set[str] = set()
    for first in steps:
        path = [first] if first not in seen else []
        while path:
            seen.add(path[-1])
            below = next((one for one in named[path[-1]] if one not in seen), None)
            if below is None:
                name = path.pop()
                ordered[name] = steps[name]
            else:
                path.append(below)
    return ordered
