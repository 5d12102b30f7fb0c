"""Segments that list resources of a patient or of a visit (AL1, DG1, IN1 ...), one each, and the digest of its key.

A resource file with `segments` defines for each segment its identifying fields (`key`), whether the list is complete
(`list: snapshot`) and how a resource that is no longer listed changes (`retired`). The identity is the key's digest,
within the patient or the visit, in a system of the sender's own; the set id does not identify. As with the Patient,
the result depends on the segment's text alone, and is cached.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from engine.fhir.changes import OTHERS
from engine.fhir.period import REVERSED, without_reversed
from engine.fhir.plan import ElementChange, Identity, Keep, Needed, ResourceRecord, Retire
from engine.hl7.leaf import NULL
from engine.hl7.message import Segment
from engine.mapping.language.bounded_cache import BoundedCache
from engine.mapping.language.dependence import Dependence
from engine.mapping.language.node import Step
from engine.mapping.language.reading import MessageReading
from engine.mapping.language.references import Refers, pointed, referring, resolved
from engine.mapping.resource.grouping import not_under
from engine.mapping.resource.slice_cache import MAX_KEPT, Memo, SliceCache, SliceReader
from engine.mapping.resource.slice_writer import IdentifierList, SliceWriter, deletions

KEY_BYTES: Final = 12
# Copied for each key, which is cheaper than a new one.
EMPTY: Final = blake2b(digest_size=KEY_BYTES)


def digest_of(owner: Identity, key: Sequence[str]) -> str:
    """Return the digest of a key within its owner."""
    made = EMPTY.copy()
    made.update("\x1f".join((*owner, *key)).encode("utf-8", "surrogatepass"))
    return made.hexdigest()


# The cached values of each element of a list, in addition to whole segments.
MAX_SLICES: Final = 256
DELETE: Final = "D"
NO_CHANGE: Final = "X"
NOBODY: Final = Identity("", "")
LISTED_TWICE: Final = "listed-twice"
# Table 0206, segment action code, and table 0287, problem/goal action code, in its words.
ACTIONS: Final = {code: code for code in ("A", DELETE, "U", NO_CHANGE)} | {
    "AD": "A", "CO": "U", "DE": DELETE, "LI": "A", "UC": NO_CHANGE, "UN": DELETE, "UP": "U"
}  # fmt: skip
# Segments that a message has once: their first field is data, and `""` in it does not delete a list.
SINGLE: Final = frozenset({"PID", "PD1", "PV1", "PV2"})


class Member(NamedTuple):
    """The content of one segment: its key (none: nothing identifies it), identifiers, changes.

    `nothing`: the segment deletes all of its list. `action` is its code of table 0206, empty where it has none.
    `refers`: the changes that name the patient, the visit or the resource another file makes of the same segment
    (`#~RelatedPerson`), and these names. `visit`: the visit's item for it (its diagnosis), None if there is none.
    `mark`: the digest of its key.
    """

    key: tuple[str, ...]
    identifiers: tuple[Any, ...]
    changes: tuple[ElementChange, ...]
    warnings: tuple[str, ...]
    referred: dict[str, Needed]
    action: str = ""
    nothing: bool = False
    refers: Refers = ()
    visit: Any = None
    mark: str = ""


NOTHING: Final = Member((), (), (), (), {})


@dataclass(frozen=True, slots=True)
class Retired:
    """The retirement of a resource: its changes, and the elements that are removed, from any source."""

    changes: tuple[ElementChange, ...] = ()
    clears: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Owner:
    """The owner of a list: the local name of the patient or the visit in the plan, and its first identity.

    `visit` is the visit's record, None if the list is the patient's.
    """

    local: str
    identity: Identity
    visit: ResourceRecord | None = None


@dataclass(frozen=True, slots=True)
class ListingRules:
    """The rules of a file for one segment; `with_` are segments that follow it and belong to it (IN2).

    `within`: `patient` or `encounter`. `each`: resources with the same key are distinguished by their order; otherwise
    the first one counts. `revives`: elements that only a retirement writes. `on_visit`: the list of the visit that
    names the resources, and the step that makes its items. `depends`: the dependence of all of this. `parents`:
    segments under one of these belong to another list.
    """

    type_: str
    segment: str
    holder: str
    within: str
    with_: tuple[str, ...]
    complete: bool
    each: bool
    key: tuple[Step, ...]
    action: Step | None
    when: Step | None
    needs: frozenset[str]
    retired: Retired
    revives: tuple[str, ...]
    depends: Dependence
    on_visit: tuple[str, Step] | None = None
    parents: frozenset[str] = frozenset()


class Listing:
    """One segment of a resource file, compiled."""

    def __init__(
        self, rules: ListingRules, writers: tuple[SliceWriter, ...], identifiers: IdentifierList, base: str
    ) -> None:
        self.rules = rules
        self._slices = SliceReader(writers, most=MAX_SLICES, always=True)
        self._ends = any(deletion.element.endswith(".end") for writer in writers for deletion in deletions(writer))
        self._identifiers = Memo(identifiers.depends, identifiers.read, MAX_SLICES) if identifiers.depends.own else None
        self._base = base
        own = {rules.segment, *rules.with_}
        elsewhere = tuple(source for source in rules.depends.sources if source[0] not in own)
        self._elsewhere = rules.depends._replace(sources=elsewhere)
        self._members: SliceCache[Member] = SliceCache()
        self._systems: BoundedCache[str, str] = BoundedCache(MAX_KEPT)

    def interactions(
        self, reading: MessageReading, owner: Owner, suffix: str, patient: str, earlier: dict[str, str]
    ) -> list[Needed | Retire]:
        """Return the interactions of the segments: a Retire of the unlisted, a Keep of each; nothing without segments.

        `patient`: the patient's local name; `earlier`: the local names of earlier resources of the plan, by the names
        that a segment uses; those made here are added.
        """
        rules = self.rules
        segments = reading.all.get(rules.segment)
        if segments and rules.parents and any(name in reading.all for name in rules.parents):
            segments = not_under(reading, rules.segment, rules.parents)
        if not segments:
            return []
        groups = _groups(reading, rules.segment, rules.with_) if rules.with_ else [(segment,) for segment in segments]
        system, (members,), elsewhere = self._system(reading), self._members.of(reading), self._elsewhere.key(reading)
        kept: dict[Identity, Keep | None] = {}
        needed: dict[str, Needed] = {}
        marks: dict[Identity, str] = {}
        firsts: dict[Identity, Member] = {}
        deleted: list[Identity] = []
        counts: dict[tuple[str, ...], int] = {}
        by_action, nothing = False, False
        named: list[ElementChange] = []
        for number, group in enumerate(groups):
            key = (group[0].text if len(group) == 1 else tuple([one.text for one in group]), elsewhere)
            member = members.get(key) or members.keep_if_again(key, self._read(reading, group))
            reading.warnings += member.warnings
            nothing = nothing or member.nothing
            by_action = by_action or bool(member.action)
            if not member.key:
                continue
            place = f"{rules.segment}-{number + 1}{suffix}"
            local = f"{rules.type_}.{place}"
            identity = self._identity(system, owner, member.key, kept, counts)
            marks[identity] = member.mark
            if member.action == DELETE:
                deleted.append(identity)
                named += self._named(member, ())
            elif identity in kept or member.action == NO_CHANGE:
                same = kept.setdefault(identity, None)
                earlier[local] = same.record.local if same else ""
                if same is not None and _differs(member, firsts[identity]):
                    reading.warnings.append(f"{LISTED_TWICE} {rules.segment}")
            else:
                changes = (
                    pointed(member.changes, member.refers, place, suffix, earlier) if member.refers else member.changes
                )
                kept[identity] = self._keep(identity, member.identifiers, changes, local, patient)
                firsts[identity] = member
                earlier[local] = local
                needed.update(member.referred)
                if member.visit is not None:
                    named += self._named(member, (resolved(member.visit, place, suffix, earlier),))
        if rules.segment in SINGLE and not (kept or deleted or nothing):
            return []
        complete = nothing or (rules.complete and not by_action)
        retire = Retire(
            rules.type_,
            rules.segment,
            owner.local,
            tuple(kept),
            tuple(deleted),
            complete,
            rules.retired.changes,
            rules.retired.clears,
            rules.holder,
            patient,
            tuple([marks[identity] for identity in kept]),
            tuple([marks[identity] for identity in deleted]),
        )
        visit = self._visit(owner.visit, named, complete) if owner.visit and (complete or named) else []
        return [retire, *needed.values(), *(one for one in kept.values() if one is not None), *visit]

    def _named(self, member: Member, items: tuple[Any, ...]) -> list[ElementChange]:
        """Return the visit's changes for one resource: a slice of its own, so that each is added and removed alone."""
        if self.rules.on_visit is None:
            return []
        return [ElementChange(self.rules.on_visit[0], f"{self.rules.segment} {member.mark}", items, many=True)]

    def _visit(self, visit: ResourceRecord, named: list[ElementChange], complete: bool) -> list[Keep]:
        """Return the visit's Keep for the listed resources; a complete list also removes all others."""
        if self.rules.on_visit is None:
            return []
        others = [ElementChange(self.rules.on_visit[0], f"{self.rules.segment} {OTHERS}", (), many=True)]
        changes = (*(others if complete else ()), *named)
        local = f"{visit.local}.{self.rules.segment}"
        return [Keep(visit._replace(local=local, identifiers=(), changes=changes, retired=()), create=False, more=True)]

    def _identity(
        self,
        system: str,
        owner: Owner,
        key: tuple[str, ...],
        kept: dict[Identity, Keep | None],
        counts: dict[tuple[str, ...], int],
    ) -> Identity:
        """Return the identity of a key; with `each`, the next free one.

        `counts`: the last number of each key, so that a message with thousands of one key is counted once.
        """
        identity = Identity(system, digest_of(owner.identity, key))
        if identity not in kept or not self.rules.each:
            return identity
        count = counts.get(key, 2)
        while (again := Identity(system, digest_of(owner.identity, (*key, str(count))))) in kept:
            count += 1
        counts[key] = count
        return again

    def _keep(
        self,
        identity: Identity,
        identifiers: tuple[Any, ...],
        changes: tuple[ElementChange, ...],
        local: str,
        patient: str,
    ) -> Keep:
        rules = self.rules
        record = ResourceRecord(
            rules.type_,
            local,
            (identity,),
            ({"system": identity.system, "value": identity.value}, *identifiers),
            changes,
            rules.holder,
            patient,
        )
        return Keep(record, revives=rules.revives)

    def _system(self, reading: MessageReading) -> str:
        source = reading.message.source
        known = self._systems.get(source)
        return known or self._systems.keep(source, f"{self._base}{self.rules.type_}:{quote(source, safe='')}")

    def _read(self, of_all: MessageReading, group: tuple[Segment, ...]) -> Member:
        rules, segment = self.rules, group[0]
        first = of_all.first
        if rules.with_:
            first = {name: one for name, one in first.items() if name not in rules.with_}
        reading = of_all.apart({**first, **{one.name: one for one in group}})
        reading.place = rules.segment
        found = [step(None, reading) for step in rules.key]
        key = tuple([" ".join(one.casefold().split()) if isinstance(one, str) else "" for one in found])
        if (segment.is_null(1) and rules.segment not in SINGLE) or (found and found[0] is NULL):
            return NOTHING._replace(nothing=True)
        if rules.when is not None and not rules.when(None, reading):
            return NOTHING
        action = self._action(reading)
        changes, refers = self._changes(reading)
        if self._ends:
            changes, turned = without_reversed(changes)
            refers = referring(changes) if turned else refers
            reading.warnings += [f"{REVERSED} {rules.segment}"] if turned else []
        if not any(key) or (action != DELETE and rules.needs and not rules.needs <= _given(changes)):
            reading.place = rules.segment
            reading.warn("not-whole")
            key = ()
        numbers, warned = self._identifiers.of(reading) if self._identifiers else ((), [])
        reading.warnings += warned
        visit = rules.on_visit[1](None, reading) if rules.on_visit else None
        visit = visit if isinstance(visit, dict) else None
        mark = digest_of(NOBODY, key)
        warnings = tuple(reading.warnings)
        return Member(key, numbers, changes, warnings, reading.referred, action, refers=refers, visit=visit, mark=mark)

    def _changes(self, reading: MessageReading) -> tuple[tuple[ElementChange, ...], Refers]:
        """Return the changes of the segment at hand, and those with names that only a plan can resolve."""
        changes: list[ElementChange] = []
        refers: list[tuple[int, tuple[str, ...]]] = []
        for one in self._slices.read(reading):
            if one.refers:
                refers += [(len(changes) + number, names) for number, names in one.refers]
            changes += one.changes
            if one.warnings:
                reading.warnings += one.warnings
            if one.referred:
                reading.referred.update(one.referred)
        return tuple(changes), tuple(refers)

    def _action(self, reading: MessageReading) -> str:
        code = self.rules.action(None, reading) if self.rules.action else None
        if not isinstance(code, str):
            return ""
        if code not in ACTIONS:
            reading.warn("bad-value")
            return ""
        return ACTIONS[code]


def _groups(reading: MessageReading, name: str, with_: tuple[str, ...]) -> Iterator[tuple[Segment, ...]]:
    """Yield each segment of a name with the segments that follow and belong to it."""
    group: list[Segment] = []
    known = {id(one) for one in reading.all[name]}
    for segment in reading.message.segments:
        if segment.name == name:
            if group:
                yield tuple(group)
            group = [segment] if id(segment) in known else []
        elif group and segment.name in with_ and all(segment.name != one.name for one in group):
            group.append(segment)
    if group:
        yield tuple(group)


def _differs(one: Member, other: Member) -> bool:
    """True if two members with one key have different content."""
    return (one.changes, one.identifiers, one.visit) != (other.changes, other.identifiers, other.visit)


def _given(changes: Sequence[ElementChange]) -> set[str]:
    return {change.element.partition(".")[0] for change in changes if change.items}
