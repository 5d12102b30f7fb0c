"""Listings of resources that belong to their sender: a laboratory's report from each OBR, results from its OBX.

The key alone identifies them (`within: sender`), independent of the patient's numbers. None is left out: if one cannot
be read whole, or the first part of its key (the order number) is missing, the message is held.
"""

from collections import ChainMap
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from engine.errors import MappingError
from engine.fhir.plan import Find, Identity, Keep, Needed, Retire
from engine.hl7.message import Segment
from engine.mapping.language.reading import MessageReading
from engine.mapping.language.references import pointed
from engine.mapping.resource.grouping import Held, ObservationGroup, SegmentGrouping, at_hand, without
from engine.mapping.resource.listing import LISTED_TWICE, NOBODY, Listing, ListingRules, Member, Owner, digest_of
from engine.mapping.resource.slice_writer import IdentifierList, SliceWriter, deletions

NOT_WHOLE: Final = "not-whole"
PATIENT: Final = "patient"
VISIT: Final = "encounter"
BAR: Final = "|"
SENDER: Final = Owner("", NOBODY)


class GroupSegment(NamedTuple):
    """One segment of a list: its name in the plan (`OBX-3.OBR-2`, the third of the second OBR), and its reading."""

    name: str
    suffix: str
    segment: Segment
    held: Held


class Listed(NamedTuple):
    """The list of one report: the identities, and the marks of their keys."""

    identities: list[Identity]
    marks: list[str]


class GroupedListing(Listing):
    """One segment of a resource file whose resources belong to their sender, in groups or individually.

    A segment is complete: an element that this source wrote before is removed if the segment lacks it (the flag of a
    corrected value), except elements in `grows`, lists that keep earlier items, and in `stays`. `shared`: the parts of
    the key that are the group's.
    """

    def __init__(
        self,
        rules: ListingRules,
        writers: tuple[SliceWriter, ...],
        identifiers: IdentifierList,
        base: str,
        grouping: SegmentGrouping,
        grows: tuple[str, ...],
        stays: tuple[str, ...],
        shared: tuple[int, ...],
    ) -> None:
        super().__init__(rules, writers, identifiers, base)
        left = {*grows, *stays}
        self._gone = tuple([one for writer in writers for one in deletions(writer) if one.element not in left])
        self._grouping = grouping
        self._grows = grows
        self._shared = shared

    def interactions(
        self, reading: MessageReading, _: Owner, suffix: str, patient: str, earlier: dict[str, str]
    ) -> list[Needed | Retire]:
        """Return the interactions of the segments, group by group; arguments as of a Listing."""
        rules, system = self.rules, self._system(reading)
        bare = without(reading, self._grouping.names)
        kept: dict[Identity, Keep | None] = {}
        firsts: dict[Identity, Member] = {}
        needed: dict[str, Needed] = {}
        lists: dict[str, Listed] = {}
        counts: dict[tuple[str, ...], int] = {}
        named: dict[str, Mapping[str, str]] = {}
        for place in (place for group in self._grouping.groups(reading) for place in self._places(group)):
            member = self._member(bare, place, reading)
            if not member.key:
                continue
            local = f"{rules.type_}.{place.name}"
            identity = self._identity(system, SENDER, member.key, kept, counts)
            same = kept.get(identity)
            if same is not None:
                earlier[local] = same.record.local
                if member.changes != firsts[identity].changes:
                    reading.warnings.append(f"{LISTED_TWICE} {rules.segment}")
                continue
            said = {change[:2] for change in member.changes}
            changes = member.changes
            if member.refers:
                if place.suffix not in named:
                    named = {place.suffix: _named(earlier, place.suffix, patient, suffix)}
                changes = pointed(changes, member.refers, "", place.suffix, named[place.suffix])
            changes += tuple([one for one in self._gone if one[:2] not in said])
            keep = self._keep(identity, member.identifiers, changes, local, patient)
            kept[identity] = keep._replace(grows=self._grows)
            firsts[identity] = member
            earlier[local] = local
            needed |= {name: _of_patient(one, patient) for name, one in member.referred.items()}
            listed = lists.setdefault(digest_of(NOBODY, [member.key[at] for at in self._shared]), Listed([], []))
            listed.identities.append(identity)
            listed.marks.append(member.mark)
        retires = [self._retire(f"{system}{BAR}{mark}", listed, patient) for mark, listed in lists.items()]
        keeps = [one for one in kept.values() if one is not None]
        return [*needed.values(), *(retires if self._shortens else ()), *keeps]

    @property
    def _shortens(self) -> bool:
        """True if a group's earlier items may be retired."""
        rules = self.rules
        return rules.segment != self._grouping.parent and (rules.each or rules.complete)

    def _places(self, group: ObservationGroup) -> Iterator[GroupSegment]:
        """Yield the segments of the list in a group: its leading segment, or those of the name under it."""
        name, rules = self._grouping.parent, self.rules
        suffix = f".{name}-{group.number}"
        if rules.segment == name:
            yield GroupSegment(f"{name}-{group.number}", suffix, group.own[name][0], group.everything())
            return
        under = [(segment, held) for segment, held in group.under if segment.name == rules.segment]
        for number, (segment, held) in enumerate(under, 1):
            nearest = self._grouping.under[rules.segment]
            above = {one: some for one, some in group.own.items() if one not in nearest}
            mine = {**above, **held, segment.name: [segment]}
            yield GroupSegment(f"{rules.segment}-{number}{suffix}", suffix, segment, mine)

    def _member(self, bare: MessageReading, place: GroupSegment, reading: MessageReading) -> Member:
        """Return the member of a segment; MappingError if its key is not unique, or a required part is missing."""
        member = self._read(at_hand(bare, place.held), (place.segment,))
        lacks = member.nothing or any(warning.startswith(NOT_WHOLE) for warning in member.warnings)
        if lacks if not member.key else not member.key[0]:
            raise MappingError(NOT_WHOLE, place.name)
        reading.warnings += member.warnings
        return member

    def _retire(self, group: str, listed: Listed, patient: str) -> Retire:
        """Return the retirement of the items that the same group listed before."""
        rules = self.rules
        return Retire(
            rules.type_,
            rules.segment,
            patient,
            tuple(listed.identities),
            (),
            rules.complete,
            rules.retired.changes,
            rules.retired.clears,
            rules.holder,
            patient,
            tuple(listed.marks),
            shortened=rules.each,
            group=group,
        )


def _named(earlier: dict[str, str], suffix: str, patient: str, of_patient: str) -> Mapping[str, str]:
    """Return the earlier resources of the plan by their names within one group: the patient and visit."""
    visit = earlier.get(f"{VISIT}{of_patient}", "")
    return ChainMap({f"{PATIENT}{suffix}": patient, f"{VISIT}{suffix}": visit}, earlier)


def _of_patient(one: Needed, patient: str) -> Needed:
    """Return a referred resource with the patient that it must belong to."""
    return one._replace(record=one.record._replace(patient=patient)) if isinstance(one, Find) else one
