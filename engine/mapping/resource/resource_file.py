"""Resource files: a verb of the event table and a message become interactions of a plan."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from engine.fhir.json import JsonObject
from engine.fhir.plan import ElementChange, Follow, Identity, Interaction, Keep, Needed, ResourceRecord, StatusMove
from engine.mapping.language.node import Test
from engine.mapping.language.reading import MessageReading
from engine.mapping.language.references import pointed, referring
from engine.mapping.resource.resource import VISIT, ResourceMapping
from engine.mapping.resource.slice_cache import Memo
from engine.mapping.resource.slice_writer import SliceChanges
from engine.mapping.subject.events import OF_IDENTITY, Act, Verb

SOURCE: Final = "source"


@dataclass(frozen=True, slots=True)
class ResourceRules:
    """The rules of a resource file other than elements: flags, and the merge of one resource into another.

    `missing`: the warning if nothing identifies the resource, `unless` one of these holds. `late`: the flag of one
    that is created by an event about a known one. `merged_to`: the status of a merged one, `part`: the element by
    which it then belongs to the other. `parts`: its elements, and the slices of lists as `location(PV1-3)`.
    `visit`: the list of the Encounter that names it.
    """

    missing: str
    unless: tuple[Test, ...]
    late: str
    merged_to: str
    part: str
    parts: frozenset[str] = frozenset()
    visit: str = ""


@dataclass(frozen=True, slots=True)
class Resource:
    """One resource file, and the effect of each verb of the event table; `new`: the elements that its type requires.

    `when`: a condition of messages. `along`: if its type is sent, it comes with each event that creates or updates the
    patient, after the lists. `refers`: its elements name other resources of the plan.
    """

    mapping: ResourceMapping
    new: Memo[SliceChanges]
    rules: ResourceRules
    when: Test | None = None
    along: bool = False
    refers: bool = False

    @property
    def parts(self) -> frozenset[str]:
        """The parts that an event may clear: elements, and slices of lists."""
        return self.rules.parts

    def keeps(
        self,
        act: Act,
        clears: tuple[str, ...],
        reading: MessageReading,
        suffix: str,
        patient: str,
        earlier: Mapping[str, str] | None = None,
        number: Identity | None = None,
    ) -> list[Needed | Follow]:
        """Return the interactions of an act, after the resources it refers to; without a number nothing and a warning.

        `clears`: the parts that the event removes. `suffix` distinguishes the resource from others of its type in the
        plan; `patient` is the local name of its patient, `number` that patient's first identity. `earlier`: earlier
        resources of the plan, by the names that a file uses (by default the patient alone).
        """
        if self.when is not None and not self.when(None, reading):
            return []
        rules = self.rules
        excused = any(test(None, reading) for test in rules.unless)
        known_by = None if excused or act.verb in OF_IDENTITY else number
        found = self.mapping.record(reading, act.type_.lower() + suffix, patient, known_by)
        if found is None:
            if rules.missing and self.mapping.speaks_of(reading) and not excused:
                reading.warnings.append(rules.missing)
            return []
        record, made = found
        if act.verb in {Verb.MERGE, Verb.RENUMBER} and not self.mapping.merged(reading):
            return []
        if self.refers:
            named = earlier or {patient: patient}
            record = record._replace(changes=pointed(record.changes, referring(record.changes), "", suffix, named))
        new = self.new.of(reading)
        reading.warnings += new.warnings
        keep = self._keep(act.verb, _cleared(record, clears, act.verb), new, reading)
        if clears:
            keep = keep._replace(clears=tuple(one for one in clears if "(" not in one))
        return [*(made | new.referred).values(), *self._merged(act.verb, keep, reading), *self._moved(keep)]

    def on_visit(self, before: Sequence[Interaction], suffix: str) -> list[Keep]:
        """Return the visit's Keep that names the resource, if both are in the plan so far."""
        rules, type_ = self.rules, self.mapping.type_
        if not rules.visit:
            return []
        kept = {one.record.local: one.record for one in before if isinstance(one, Keep)}
        own, visit = kept.get(type_.lower() + suffix), kept.get(VISIT.lower() + suffix)
        if own is None or visit is None:
            return []
        change = ElementChange(rules.visit, type_, ({"reference": f"#{own.local}"},), many=True)
        local = f"{visit.local}.{type_}"
        record = visit._replace(local=local, identifiers=(), changes=(change,), retired=())
        return [Keep(record, create=False, more=True, absent="unchanged")]

    def _keep(self, verb: Verb, record: ResourceRecord, new: SliceChanges, reading: MessageReading) -> Keep:
        keep = Keep(
            record,
            create=verb is not Verb.CANCEL,
            status=self.mapping.status(reading),
            also_of=f"{SOURCE}{record.local.partition('-')[2]}" if verb is Verb.MERGE else "",
            late="" if verb is Verb.UPSERT else self.rules.late,
            defaults=new.changes,
        )
        if verb in {Verb.RENUMBER, Verb.MOVE, Verb.MERGE}:
            retired = tuple(one for one, _ in self.mapping.merged(reading) if one not in record.identities)
            keep = keep._replace(record=record._replace(retired=retired))
        if verb in {Verb.RENUMBER, Verb.MERGE} and not self.mapping.by_own(reading):
            keep = keep._replace(create=False, absent=f"nothing-to-{'merge' if verb is Verb.MERGE else 'rename'}")
        if verb is Verb.MOVE:
            known = self.mapping.speaks_of(reading)
            moved_from = f"{SOURCE}{record.local.partition('-')[2]}"
            keep = keep._replace(moved_from=moved_from, create=known, absent="nothing-to-move")
        return keep

    def _moved(self, keep: Keep) -> tuple[Follow, ...]:
        """Return the Follow that moves the visits along with the account that they refer to."""
        if not keep.moved_from or not self.rules.visit:
            return ()
        return (Follow(keep.record, self.rules.visit, moved_from=keep.moved_from),)

    def _merged(self, verb: Verb, keep: Keep, reading: MessageReading) -> tuple[Keep | Follow, ...]:
        """Return the resource, and in a merge the retired one: its numbers stay on the other as old ones."""
        if verb is not Verb.MERGE:
            return (keep,)
        rules, record = self.rules, keep.record
        gone = [(one, number) for one, number in self.mapping.merged(reading) if one not in record.identities]
        if not gone:
            return (keep,)
        change = ElementChange(rules.part, rules.part, ({"reference": f"#{record.local}"},), many=False)
        source = ResourceRecord(
            record.type,
            f"{SOURCE}-{record.local}",
            tuple(one for one, _ in gone),
            (),
            (change,) if rules.part else (),
            record.holder,
            record.patient,
        )
        numbers: tuple[JsonObject, ...] = tuple(number | {"use": "old"} for _, number in gone)
        move = (keep.status or StatusMove("", ""))._replace(to=rules.merged_to, only=frozenset(), never=frozenset())
        kept = keep._replace(record=record._replace(identifiers=(*record.identifiers, *numbers)), merges=True)
        follows = (Follow(kept.record, rules.visit, gone=source),) if rules.visit else ()
        gone_keep = Keep(source, create=False, status=move, absent="source-absent", also_of=keep.also_of)
        return kept, *follows, gone_keep


def _cleared(record: ResourceRecord, clears: Sequence[str], verb: Verb) -> ResourceRecord:
    """Return a record with deletions of the slices that the event clears.

    Slices that the message fills stay, except in a cancel, which repeats the values that it cancels.
    """
    if not clears:
        return record
    said = {(change.element, change.slice) for change in record.changes if change.items and verb is not Verb.CANCEL}
    named = {(element, rest.removesuffix(")")) for element, _, rest in (text.partition("(") for text in clears) if rest}
    gone = {key: ElementChange(*key, (), many=True) for key in sorted(named - said)}
    kept = [change for change in record.changes if (change.element, change.slice) not in gone]
    return record._replace(changes=(*kept, *gone.values())) if gone else record
