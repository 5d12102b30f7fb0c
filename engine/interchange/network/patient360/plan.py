"""Plans the import of a document into a chart: the resource of each fact, and the writes.

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
from typing import NamedTuple

from engine.fhir.json import JsonObject
from engine.interchange.network.patient360.chart_index import (
    Backing,
    ChartIndex,
    ChartIndexEntry,
    Number,
    Turn,
    numbers,
)
from engine.interchange.network.patient360.combine import differs, filled, led, withdrawn
from engine.interchange.network.patient360.deduplicate import EVENTS, Key, in_error, key_of
from engine.interchange.network.patient360.own import Incoming, references, resolved
from engine.interchange.network.patient360.record import ProvenanceTarget, stated


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
    kept = [one for one in resource.get("identifier", ()) if _count(resource, one, counted) < 2]
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
