"""Compiles the resource files with `segments`: the list of each segment, and the order of lists."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from engine.fhir.plan import ElementChange, Find, Interaction, Keep, PatientRecord
from engine.mapping.files.document import Document
from engine.mapping.files.reference import STANDARD, ReferenceElement, elements, kind_of, listed, nearest, segments
from engine.mapping.language.node import Step
from engine.mapping.language.reading import MessageReading
from engine.mapping.language.references import SAME
from engine.mapping.language.scope import Path, Scope
from engine.mapping.language.template import Compiler
from engine.mapping.resource.grouped import GroupedListing
from engine.mapping.resource.grouping import UNDER, SegmentGrouping, groupings
from engine.mapping.resource.listing import Listing, ListingRules, Owner, Retired
from engine.mapping.resource.slices import Slices
from engine.mapping.resource.type_rules import check_holder, check_required, filled, known_type, written
from engine.mapping.subject.events import EventRule

SEGMENTS: Final = "segments"
FILE_KEYS: Final = frozenset(
    {"resource", "extends", "patient", SEGMENTS, "within", "list", "retired", "needs", "grows", "stays"}
)
SEGMENT_KEYS: Final = frozenset({
    "with", "led_by", "key", "list", "same_key", "action", "when", "within", "visit", "elements",
})  # fmt: skip
# Keys without a use in a list `within: sender`.
NOT_OF_SENDER: Final = ("action", "visit")
# Keys for such a list only.
ONLY_OF_SENDER: Final = frozenset({"grows", "stays"})
WITHIN: Final = ("patient", "encounter", "sender")
VISIT: Final = "Encounter"
SNAPSHOT: Final = "snapshot"
ADDITIVE: Final = "additive"
FIRST: Final = "RelatedPerson"
SENDER: Final = "sender"
SAME_THING: Final = re.compile(rf"{SAME}([A-Za-z]+)")


def compile_lists(
    compiler: Compiler, documents: Mapping[str, Document], base_uri: str
) -> dict[str, tuple[Listing, ...]]:
    """Compile every resource file that has `segments`, by type; each after those that it refers to."""
    listed = {name: one for name, one in documents.items() if SEGMENTS in one.value}
    known = groupings(one.value[SEGMENTS] for one in listed.values())
    waiting = sorted(listed, key=lambda name: (name != FIRST, name))
    lists: dict[str, tuple[Listing, ...]] = {}
    while waiting:
        missing = set(waiting)
        name = next((one for one in waiting if not missing & _referred(listed[one], one)), waiting[0])
        waiting.remove(name)
        lists[name] = _File(compiler, listed[name], name, base_uri, known).listings()
    return lists


def _referred(document: Document, own: str) -> set[str]:
    """Return the types that the items of a file refer to, `#~Observation`."""
    return {one for one in SAME_THING.findall(repr(document.value)) if one != own}


class Lists:
    """The lists of a mapping, and the lists of an event.

    Lists of the types in `resources` come with every event that creates or updates the patient; an event whose `do`
    names lists has these alone.
    """

    def __init__(self, listings: Mapping[str, tuple[Listing, ...]], sent: frozenset[str]) -> None:
        self.types = frozenset(listings)
        self._listings = listings
        self._brought = tuple(name for name in listings if name in sent)
        self.sent = frozenset(self._brought)

    def brought(self, rule: EventRule) -> tuple[str, ...]:
        """Return the types of an event's lists."""
        return tuple([act.type_ for act in rule.acts if act.type_ in self.types]) or self._brought

    def named(self, rule: EventRule) -> tuple[str, ...]:
        """Return the types of the lists that an event's `do` names."""
        return tuple([act.type_ for act in rule.acts if act.type_ in self.types])

    def interactions(
        self,
        types: tuple[str, ...],
        record: PatientRecord,
        before: Sequence[Interaction],
        reading: MessageReading,
        suffix: str,
        earlier: dict[str, str],
    ) -> list[Interaction]:
        """Return the interactions of lists for a patient; `before` are the earlier ones of the plan.

        `earlier`: the same by the names that files use; listed resources are added.
        """
        if not types or not record.identities:
            return []
        patient = Owner(record.local, record.identities[0])
        visit = _visit(before, suffix)
        owners = {"patient": patient, "encounter": visit or patient}
        with_visit = replace(patient, visit=visit.visit) if visit else patient
        planned: list[Interaction] = []
        of_sender = False
        for name in [name for name in self._listings if name in types]:
            for listing in self._listings[name]:
                if listing.rules.segment in reading.all:
                    within = listing.rules.within
                    owner, of_sender = owners.get(within, patient), of_sender or within == SENDER
                    if owner is patient and listing.rules.on_visit:
                        owner = with_visit
                    planned += listing.interactions(reading, owner, suffix, record.local, earlier)
        return sorted(planned, key=_is_written) if of_sender else planned


def _is_written(one: Interaction) -> bool:
    """True if an interaction writes: look-ups come first, because they may hold the message."""
    return not isinstance(one, Find)


def _visit(before: Sequence[Interaction], suffix: str) -> Owner | None:
    local = f"encounter{suffix}"
    kept = (one.record for one in before if isinstance(one, Keep) and one.record.local == local)
    record = next(kept, None)
    return Owner(local, record.identities[0], record) if record else None


class _File:
    def __init__(
        self, compiler: Compiler, document: Document, type_: str, base_uri: str, known: Mapping[str, SegmentGrouping]
    ) -> None:
        self._groupings = known
        self._compiler = compiler
        self._document = document
        self._type = type_
        self._base = base_uri
        self._known = elements().get(type_, {})

    def listings(self) -> tuple[Listing, ...]:
        value, scope = self._document.value, Scope(self._document)
        if not known_type(self._compiler, scope, self._type):
            return ()
        self._compiler.keys(value, FILE_KEYS, scope)
        holder = str(value.get("patient") or "")
        check_holder(self._compiler, scope, self._type, holder)
        given = value.get(SEGMENTS)
        if not isinstance(given, dict):
            self._compiler.problem(scope.at(SEGMENTS), "no segments", "write AL1: {key: [...], elements: {...}}")
            return ()
        made = [self._listing(name, part, holder) for name, part in given.items() if part is not None]
        compiled = tuple(one for one in made if one is not None)
        if len(compiled) == len(made) and not any(isinstance(one, GroupedListing) for one in compiled):
            for key in sorted(ONLY_OF_SENDER & value.keys()):
                expected = "leave it out: it is for segments with within: sender"
                self._compiler.problem(scope.at(key), f"{key!r}, and no segment within sender", expected)
        return compiled

    def _listing(self, named: str, value: Any, holder: str) -> Listing | None:
        path: Path = (SEGMENTS, named)
        scope = Scope(self._document, path)
        segment, _, parent = named.partition(UNDER)
        for one in (segment, *([parent] if UNDER in named else ())):
            if one not in segments() and not one.startswith("Z"):
                self._compiler.problem(scope, f"unknown segment {one!r}", nearest(one, segments(), STANDARD))
                return None
        if not isinstance(value, dict):
            self._compiler.problem(scope, f"found {kind_of(value)}", "write {key: [...], elements: {...}}")
            return None
        self._compiler.keys(value, SEGMENT_KEYS, scope)
        within, under = self._within(value, scope), f"{segment}{UNDER}"
        if within == SENDER:
            self._of_sender(value, named, scope)
        elif parent:
            expected = "write within: sender, and a key that identifies the group"
            self._compiler.problem(scope, f"{named!r} within {within}", expected)
            return None
        slices = Slices(self._compiler, self._document, self._type, path)
        authored = value.get("elements") or {}
        retired, writes = self._retired()
        check_required(self._compiler, scope.at("elements"), self._type, {*written(holder), *filled(authored)})
        texts = listed(value.get("key"))
        keys = [self._text(text, scope.at("key", at)) for at, text in enumerate(texts)]
        if not keys:
            self._compiler.problem(scope, "no key", "say what identifies it, such as key: [AL1-3.1 | else AL1-3.2]")
        guards = self._compiler.guards({"when": value["when"]}, scope) if "when" in value else []
        rules = ListingRules(
            self._type,
            segment,
            holder,
            within,
            () if within == SENDER else tuple(listed(value.get("with"))),
            self._complete(value, scope),
            self._word(value, "same_key", ("first", "each"), scope) == "each",
            tuple(keys),
            self._text(value["action"], scope.at("action")) if "action" in value else None,
            guards[0][0].test if guards else None,
            self._needed(),
            retired,
            tuple(name for name in writes if name not in {key.partition(".")[0] for key in authored}),
            self._compiler.dependence(value),
            self._on_visit(value.get("visit"), scope.at("visit")),
            frozenset(one.partition(UNDER)[2] for one in self._document.value[SEGMENTS] if one.startswith(under)),
        )
        if within != SENDER:
            return Listing(rules, slices.writers(), slices.identifiers(), self._base)
        grouping = self._groupings[parent or segment]
        shared = tuple(at for at, text in enumerate(texts) if not self._reads(text, segment))
        return GroupedListing(
            rules,
            slices.writers(),
            slices.identifiers(),
            self._base,
            grouping,
            self._elements("grows", many=True),
            self._elements("stays"),
            shared,
        )

    def _of_sender(self, value: dict[str, Any], named: str, scope: Scope) -> None:
        """Note missing and useless keys of a list `within: sender`."""
        for key in NOT_OF_SENDER:
            if key in value:
                expected = "leave it out: it is for the lists of a patient"
                self._compiler.problem(scope.at(key), f"{key!r} within sender", expected)
        if UNDER not in named and self._complete(value, scope):
            expected = "write list: additive; only segments under another one may be a snapshot"
            self._compiler.problem(scope.at("list"), "a snapshot within sender", expected)

    def _reads(self, text: str, segment: str) -> bool:
        return any(source[0] == segment for source in self._compiler.dependence(text).own)

    def _elements(self, key: str, *, many: bool = False) -> tuple[str, ...]:
        """Return the elements that a key of the file names."""
        names = tuple(listed(self._document.value.get(key)))
        for name in names:
            self._compiler.has(self._type, name, Scope(self._document, (key,)), many=many)
        return names

    def _on_visit(self, value: Any, scope: Scope) -> tuple[str, Step] | None:
        """Return the list of the visit that names these resources, and the step that makes its items."""
        if value is None:
            return None
        known = elements()[VISIT]
        name, part = next(iter(value.items())) if isinstance(value, dict) and len(value) == 1 else (str(value), None)
        if not self._compiler.has(VISIT, name, scope, many=True):
            return None
        return name, self._compiler.object(part, scope.at(name), known[name].type_).step

    def _within(self, value: dict[str, Any], scope: Scope) -> str:
        """Return the owner's kind; a segment's own word takes precedence over the file's."""
        if "within" in value:
            return self._word(value, "within", WITHIN, scope)
        return self._word(self._document.value, "within", WITHIN, Scope(self._document))

    def _complete(self, value: dict[str, Any], scope: Scope) -> bool:
        """True if the list is complete; the file's own word applies to all of its segments."""
        words = (SNAPSHOT, ADDITIVE)
        own = self._word(value, "list", words, scope)
        if "list" in self._document.value:
            own = self._word(self._document.value, "list", words, Scope(self._document))
        return own == SNAPSHOT

    def _retired(self) -> tuple[Retired, tuple[str, ...]]:
        """Return the retirement of a resource, and the elements that only it writes."""
        value = self._document.value.get("retired")
        scope = Scope(self._document, ("retired",))
        if not isinstance(value, dict) or not value:
            self._compiler.problem(scope, "no map 'retired'", "say what becomes of it, such as {status: cancelled}")
            return Retired(), ()
        changes: list[ElementChange] = []
        clears: list[str] = []
        for name, part in value.items():
            if not self._compiler.has(self._type, name, scope.at(name)):
                continue
            if part is None:
                clears.append(name)
            else:
                element = self._known[name]
                made = self._compiler.value(
                    part, scope.at(name), ReferenceElement(element.type_, many=False, codes=element.codes)
                )
                constant = made.step(None, None)  # type: ignore[arg-type]  # a constant uses neither
                changes.append(ElementChange(name, name, (constant,), many=False))
        return Retired(tuple(changes), tuple(clears)), tuple(change.element for change in changes)

    def _text(self, text: Any, scope: Scope) -> Step:
        return self._compiler.expression(text, scope, ReferenceElement("string", many=False)).step

    def _needed(self) -> frozenset[str]:
        names = listed(self._document.value.get("needs"))
        for name in names:
            self._compiler.has(self._type, name, Scope(self._document, ("needs",)))
        return frozenset(names)

    def _word(self, value: dict[str, Any], key: str, words: tuple[str, ...], scope: Scope) -> str:
        word = str(value.get(key) or words[0])
        if word not in words:
            self._compiler.problem(scope.at(key), f"found {word!r}", f"expected {' or '.join(words)}")
        return word
