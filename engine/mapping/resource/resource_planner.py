"""The plan of all other resources: those of acts, of lists, of files with `along`, and the Provenance."""

from collections.abc import Mapping, Sequence

from engine.fhir.plan import Follow, Interaction, Keep, Needed, PatientRecord
from engine.mapping.language.reading import MessageReading
from engine.mapping.resource.lists import Lists
from engine.mapping.resource.provenance import Attestation
from engine.mapping.resource.resource_file import Resource
from engine.mapping.subject.events import BARE, OF_IDENTITY, Act, EventAction, EventRule, Verb


class ResourcePlanner:
    """The compiled files of resources other than the Patient; `sent`: the types that are delivered."""

    def __init__(
        self,
        resources: Mapping[str, Resource],
        lists: Lists,
        attestations: Mapping[str, Attestation],
        sent: frozenset[str],
    ) -> None:
        self.resources = resources
        self._lists = lists
        along = (name for name, one in resources.items() if one.along and name in sent)
        self._along = tuple(Act(Verb.UPSERT, name) for name in along)
        self.brought = frozenset({*lists.sent, *(act.type_ for act in self._along), *(attestations.keys() & sent)})
        self.attestations = tuple(one for name, one in attestations.items() if name in sent)

    def interactions(
        self,
        rule: EventRule,
        record: PatientRecord,
        before: Sequence[Interaction],
        reading: MessageReading,
        suffix: str,
        *,
        historic: bool,
    ) -> list[Interaction]:
        """Return the interactions for a patient's resources; `before` are the plan's interactions for them so far.

        First the event's acts, then the lists, then the files with `along`, which may refer to these (Account). A
        movement of the past has no lists, and an event without demographics only the lists that its acts name.
        Look-ups come before all writes.
        """
        planned = list(before)
        for act in rule.acts:
            if act.type_ in self.resources:
                earlier = _names(record, planned) if self.resources[act.type_].refers else None
                planned += self._act_interactions(act, rule, record, planned, reading, suffix, earlier)
        bare = rule.action in BARE
        listed = self._lists.named(rule) if bare else self._lists.brought(rule)
        along = () if bare else self._along
        if historic or not (listed or along):
            return planned[len(before) :]
        earlier = _names(record, planned)
        planned += self._lists.interactions(listed, record, planned, reading, suffix, earlier)
        for act in along:
            planned += self._act_interactions(act, rule, record, planned, reading, suffix, earlier)
        return planned[len(before) :]

    def attested(self, reading: MessageReading) -> tuple[Interaction, ...]:
        """Return the Provenance of all of it."""
        return tuple(one for attestation in self.attestations for one in attestation.attest(reading))

    def _act_interactions(
        self,
        act: Act,
        rule: EventRule,
        record: PatientRecord,
        before: Sequence[Interaction],
        reading: MessageReading,
        suffix: str,
        earlier: Mapping[str, str] | None = None,
    ) -> list[Interaction]:
        resource = self.resources[act.type_]
        number = record.identities[0] if record.identities else None
        kept = resource.keeps(act, rule.clears, reading, suffix, record.local, earlier, number)
        if rule.action is EventAction.DELETE:
            kept = [_if_there(one) for one in kept]
        on_visit = () if act.verb in OF_IDENTITY else resource.on_visit((*before, *kept), suffix)
        return [*kept, *on_visit]


def _names(record: PatientRecord, before: Sequence[Interaction]) -> dict[str, str]:
    """Return the earlier resources of a plan by the names that files use."""
    names = (record.local, *(one.record.local for one in before if isinstance(one, Keep)))
    return {name: name for name in names}


def _if_there(one: Needed | Follow) -> Needed | Follow:
    """Return an interaction for a deleted patient: an unknown resource leaves the delivery `unchanged`."""
    return one._replace(absent="unchanged") if isinstance(one, Keep) else one
