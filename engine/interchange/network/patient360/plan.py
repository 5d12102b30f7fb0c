"""What the import of a document does to a chart: the resource that stands for each fact, and what is written.

- A fact with the key of a resource is that resource. What was entered here, or changed here since it was imported,
  stays as it is: the document only stands behind it. Else the newest statement leads, whoever made it, and details that
  it lacks are kept of the others; what one organization alone says is as its newest document says it.
- A fact without one is a later version of what the same organization said before, where that has the same number and
  principal coding, and for what happens at a time the same date. It takes its place, unless others say what it was.
- An older statement never takes the place of a newer one. What a source takes back is entered in error, unless others
  say it; so is what it has corrected to what another resource states already.
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
    """The resource that stands for a fact, None for none; whether the fact leads there, or adds what is lacking."""

    entry: ChartIndexEntry | None
    came: FactOutcome
    leads: bool = False
    adds: bool = False


@dataclass(slots=True)
class ImportStep:
    """One resource to write: as it is to be, and the version that it replaces, 0 for a new one."""

    entry: ChartIndexEntry
    content: JsonObject
    replaces: int


class ImportedDocument(NamedTuple):
    """Whose document it is, and its number, which is the same wherever and whenever it is imported."""

    organization: str
    number: str


@dataclass(slots=True)
class ImportPlan:
    """What the import of one document writes, in an order in which what is referred to comes first."""

    standing: ChartIndex
    source: ImportedDocument
    new_id: Callable[[], str]
    steps: dict[str, ImportStep] = field(default_factory=dict)
    targets: dict[str, ProvenanceTarget] = field(default_factory=dict)
    counts: Counter[FactOutcome] = field(default_factory=Counter)

    def lead(self, entry: ChartIndexEntry, content: JsonObject, stated_ms: int) -> None:
        """Write the document itself first, and let it stand behind its DocumentReference too."""
        self.standing.drop_key(entry)
        entry.resource, entry.key = content, key_of(content)
        self.standing.add(entry)
        step = ImportStep(entry, content, entry.version)
        entry.version += 1
        self.steps = {entry.reference: step, **self.steps}
        self.targets = {entry.reference: ProvenanceTarget(entry.reference, entry.version, stated_ms), **self.targets}


def make_plan(
    standing: ChartIndex, facts: tuple[Incoming, ...], source: ImportedDocument, new_id: Callable[[], str]
) -> ImportPlan:
    """Return what a document's facts do to a chart; `standing` is then the chart as it will be."""
    plan = ImportPlan(standing, source, new_id)
    facts = _identified(facts)
    taken: set[int] = set()
    moves: list[FactPlacement] = []
    for fact in facts:
        key = key_of(fact.resource)
        prior = _prior(standing, fact, key, source.organization)
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
    same = plan.standing.by_key.get(key)
    error = in_error(fact.resource)
    if same is not None and (not error or same.id in plan.standing.imports):
        if prior is not None and prior is not same and _may_replace(prior, turn):
            _withdraw(plan, prior, fact.stated_at)
        # What another document tells of one that was imported changes nothing of that.
        return FactPlacement(same, FactOutcome.KNOWN) if same.id in plan.standing.imports else _said_again(same, turn)
    if prior is None and error and same is not None and same.only_of(turn[1]):
        prior = same
    prior = prior or _taken_back(plan.standing.errors.get((turn[1], key)), turn, error=error)
    if prior is None or not (prior.edited or turn <= prior.newest_of(turn[1]) or prior.only_of(turn[1])):
        if prior is not None and error:
            return FactPlacement(None, FactOutcome.KNOWN)
        entry = ChartIndexEntry(key.type, plan.new_id(), 0, fact.resource, key, [Backing(turn, 1)], edited=False)
        plan.standing.add(entry)
        return FactPlacement(entry, FactOutcome.WITHDRAWN if error else FactOutcome.ADDED, leads=True)
    if prior.edited:
        return FactPlacement(prior, FactOutcome.KEPT)
    if not _may_replace(prior, turn):
        return FactPlacement(prior, FactOutcome.KNOWN)
    plan.standing.drop_key(prior)
    prior.key = key
    if not error:
        plan.standing.by_key[key] = prior
    return FactPlacement(prior, FactOutcome.KNOWN, leads=True)


def _taken_back(found: ChartIndexEntry | None, turn: Turn, *, error: bool) -> ChartIndexEntry | None:
    """Return what was entered in error, if a statement of the same fact is about that; the same document may differ."""
    return found if found is not None and (error or found.edited or turn != found.newest_of(turn[1])) else None


def _said_again(same: ChartIndexEntry, turn: Turn) -> FactPlacement:
    """Return what is done where a resource states the fact already."""
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


def _prior(standing: ChartIndex, fact: Incoming, key: Key, organization: str) -> ChartIndexEntry | None:
    """Return the resource that an earlier version of a fact became; None for none, and where it is not sure which."""
    found = {
        id(entry): entry
        for number in numbers(organization, fact.resource)
        for entry in standing.by_number.get(number, ())
        if entry.key.coding == key.coding and (key.type not in EVENTS or entry.key.date == key.date)
    }
    return next(iter(found.values())) if len(found) == 1 else None


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
    _stand_behind(plan, entry, turn, stated_at, kept=move.came is FactOutcome.KEPT)


def _withdraw(plan: ImportPlan, entry: ChartIndexEntry, stated_at: str) -> None:
    """Enter in error what its only source has corrected to what another resource states."""
    entry.resource = withdrawn(entry.resource)
    plan.steps[entry.reference] = ImportStep(entry, entry.resource, entry.version)
    plan.counts[FactOutcome.WITHDRAWN] += 1
    _stand_behind(plan, entry, (stated(stated_at), *plan.source), stated_at, kept=False)


def _stand_behind(plan: ImportPlan, entry: ChartIndexEntry, turn: Turn, stated_at: str, *, kept: bool) -> None:
    """Let the document stand behind a resource, with the version that it writes, and know that by what it now says."""
    step = plan.steps.get(entry.reference)
    version = step.replaces + 1 if step is not None else 0
    plan.targets[entry.reference] = ProvenanceTarget(entry.reference, version, turn[0], stated_at, kept)
    plan.standing.drop_key(entry)
    entry.backings.append(Backing(turn, version))
    entry.key = key_of(entry.resource)
    plan.standing.add(entry)


def _identified(facts: Iterable[Incoming]) -> tuple[Incoming, ...]:
    """Return facts without the numbers that a document gives to more than one: these name none of them."""
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
    """Return steps so that what they refer to comes before them; circles stay in the order in which they came."""
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
