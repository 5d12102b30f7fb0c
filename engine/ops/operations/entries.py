"""Operations on single entries: replay, release, retry, discard; dry run, edit, and resolve who a patient is."""

from typing import Final

from pydantic import Field

from engine.config.relay import MLLP
from engine.deliver.patient.question import PatientQuestion
from engine.errors import EditError, UsageError
from engine.fhir.patient import carries, current_numbers, person, replaced_by
from engine.journal.entry import UNFINISHED
from engine.ops.access.actor import Actor, Permission
from engine.ops.operations.fields import Changes, EntryNumber, Force, Patient, Reason, Verbatim, Word
from engine.ops.operations.operation import Confirm, Operation, Request
from engine.ops.views.answer import Answer, AnyJson, Count, EntrySeq, Headers
from engine.ops.views.entry import Differences
from engine.ops.views.patient import RecordLink, links_of
from engine.pipeline.engine import Engine
from engine.pipeline.repair import choosing, editing
from engine.pipeline.repair.editing import EntryDryRun, dry_run

MOST_REASON: Final = 1_000
NEXT_STEP: Final = "the original is unfinished and goes before it: release or discard it"
# By how many records are left to choose from.
SETTLED: Final = (
    "no record is left: release the entry (adt-engine messages release {seq})",
    "one record is left: release the entry (adt-engine messages release {seq})",
)


class OfEntry(Request):
    """An entry by its number."""

    entry: EntryNumber


class Edited(OfEntry):
    """An edit of an entry: the whole message, or parts to set: `{"PID-5.1": "Quintero"}`."""

    message: Verbatim = Field("", description="The whole edited message.")
    set: Changes = Field(default_factory=dict, description="Parts to change, by their paths.")

    async def bytes(self, engine: Engine) -> bytes:
        """Return the bytes of the edited message; UsageError where it is empty or makes no sense."""
        if bool(self.message) == bool(self.set):
            raise UsageError("give the whole message, or the parts to set: --file FILE, or --set PID-5.1=TEXT")
        view = await engine.entry_operations.entry(self.entry)
        try:
            return editing.bytes_of(view, engine.entry_operations.feed(view.row.channel), self.message, self.set)
        except EditError as error:
            raise UsageError(str(error)) from error


class Destinations(Answer):
    """The number of destinations concerned."""

    destinations: Count


class Runnable(Answer):
    """The number of deliveries behind it that may run now."""

    runnable: Count


class Refused(Answer):
    """Why the listener would refuse a message."""

    reason: str
    findings: tuple[str, ...]


class CallView(Answer):
    """A call that would be made; `changes` is false for a preview."""

    method: str
    path: str
    headers: Headers
    body: AnyJson
    changes: bool


class ResourceDifference(Answer):
    """What would change at the server; a resource that would be created is called `Patient/new-1`."""

    resource: str
    path: str
    before: AnyJson
    after: AnyJson


class DestinationDryRun(Answer):
    """How the entry would end at one destination; of a relay (`type` mllp) `calls` has what would leave."""

    destination: str
    type: str = "fhir"
    overtaken: bool
    verdict: str
    reason: str
    notes: tuple[str, ...]
    calls: tuple[CallView, ...]
    differences: tuple[ResourceDifference, ...]


class DryRunView(Answer):
    """What a replay would do at its destinations now; `differences` are those of an edit."""

    entry: Count
    differences: Differences
    refused: Refused | None
    destinations: tuple[DestinationDryRun, ...]


class EditedEntry(Answer):
    """The new entry, and the state of the one that was edited."""

    entry: EntrySeq
    parent: Count
    state: str
    differences: Differences
    original: str
    next_step: str


class Match(Answer):
    """A record that may be the patient; `carries` are the entry's identities that it has, `links` those to others."""

    patient: str
    active: bool
    merged: bool
    name: str
    birthDate: str | None  # noqa: N815 - as FHIR calls it
    gender: str | None
    identifiers: tuple[str, ...]
    carries: tuple[str, ...]
    links: tuple[RecordLink, ...] = ()


class Matches(Answer):
    """The records to choose from; `next_step` is empty where a person must choose."""

    entry: Count
    destination: str
    reason: str
    identities: tuple[str, ...]
    matches: tuple[Match, ...]
    next_step: str


class ReplayMessage(OfEntry, Operation[Destinations]):
    """Deliver an entry again, in its original place among its patient's messages; idempotent."""

    name = "messages.replay"
    permission = Permission.OPERATE

    force: Force = False
    destination: Word = ""

    async def run(self, engine: Engine, actor: Actor) -> Destinations:
        """Return at how many destinations."""
        count = await engine.entry_operations.replay(self.entry, self.destination, force=self.force, by=actor.name)
        return Destinations(destinations=count)


class ReleaseMessage(OfEntry, Operation[Destinations]):
    """Release a held entry (a dead letter that keeps its place): it is tried again."""

    name = "messages.release"
    permission = Permission.OPERATE

    force: Force = False
    reason: Reason = ""

    async def run(self, engine: Engine, actor: Actor) -> Destinations:
        """Return at how many destinations."""
        return Destinations(
            destinations=await engine.entry_operations.release(self.entry, force=self.force, by=actor.name)
        )


class RetryMessage(OfEntry, Operation[Destinations]):
    """Retry an entry now, whether it is held or waits for its next retry."""

    name = "messages.retry"
    permission = Permission.OPERATE

    async def run(self, engine: Engine, actor: Actor) -> Destinations:
        """Return at how many destinations."""
        return Destinations(destinations=await engine.entry_operations.retry(self.entry, by=actor.name))


class DiscardMessage(OfEntry, Operation[Runnable]):
    """Discard an entry for good, with a reason; what waits behind it continues."""

    name = "messages.discard"
    permission = Permission.OPERATE
    confirm = Confirm.STEP_UP

    reason: Reason = ""

    async def run(self, engine: Engine, actor: Actor) -> Runnable:
        """Return how much may run now; UsageError without a reason."""
        check_reason(self.reason, "the entry is discarded")
        return Runnable(runnable=await engine.entry_operations.discard(self.entry, self.reason, by=actor.name))


class DryRunMessage(Edited, Operation[DryRunView]):
    """Dry run: show what a replay, or an edit, would change at the server now, without writing anything."""

    name = "messages.rehearse"
    permission = Permission.OPERATE

    destination: Word = ""

    async def run(self, engine: Engine, _actor: Actor) -> DryRunView:
        """Return what would be done."""
        raw = await self.bytes(engine) if self.model_fields_set & {"message", "set"} else None
        return _dry_run_view(self.entry, await dry_run(engine.entry_operations, self.entry, self.destination, raw))


class EditMessage(Edited, Operation[EditedEntry]):
    """Edit an entry's message: a new entry, handled as if it had just arrived; the original stays."""

    name = "messages.edit"
    permission = Permission.OPERATE

    discard_original: Force = Field(default=False, description="Discard the original entry if it is unfinished.")
    reason: Reason = ""
    force: Force = False

    async def run(self, engine: Engine, actor: Actor) -> EditedEntry:
        """Return the new entry; UsageError where the original is to be discarded without a reason."""
        if self.discard_original:
            check_reason(self.reason, "the original is discarded")
        raw = await self.bytes(engine)
        discard = self.reason if self.discard_original else ""
        made = await editing.edit(
            engine.entry_operations, self.entry, raw, by=actor.name, force=self.force, discard=discard
        )
        return EditedEntry.of(made, parent=self.entry, next_step=NEXT_STEP if made.original in UNFINISHED else "")


class ListMatches(OfEntry, Operation[Matches]):
    """List the server's records that an entry's ambiguous patient may be."""

    name = "messages.matches"
    permission = Permission.OPERATE

    destination: Word = ""

    async def run(self, engine: Engine, _actor: Actor) -> Matches:
        """Return the records."""
        asked = await choosing.ask(engine.entry_operations, self.entry, self.destination)
        return Matches(
            entry=self.entry,
            destination=asked.destination,
            reason=asked.reason,
            identities=tuple("|".join(identity) for identity in asked.question.identities),
            matches=_matches(asked.question),
            next_step=SETTLED[asked.question.left].format(seq=self.entry) if asked.settled else "",
        )


class ResolvePatient(OfEntry, Operation[Destinations]):
    """Choose which record an entry's patient is, and release the entry; nothing is merged."""

    name = "messages.resolve"
    permission = Permission.OPERATE
    confirm = Confirm.STEP_UP

    destination: Word = Field("", description="The destination, if it is held at several.")
    patient: Patient = Field("", description="The id of the Patient at the server.")

    async def run(self, engine: Engine, actor: Actor) -> Destinations:
        """Return at how many destinations; UsageError where no patient is named."""
        if not self.patient:
            raise UsageError("name the Patient by its id at the server: --patient ID")
        count = await choosing.resolve(
            engine.entry_operations, self.entry, self.destination, self.patient, by=actor.name
        )
        return Destinations(destinations=count)


def _dry_run_view(seq: int, found: EntryDryRun) -> DryRunView:
    """Return a dry run as it is shown."""
    findings = tuple(f"{one.code.value} {one.reason} {' '.join(one.locations)}".rstrip() for one in found.findings)
    refused = Refused(reason=found.reason, findings=findings) if found.reason or findings else None
    destinations = tuple(
        DestinationDryRun.of(
            one,
            destination=name,
            type=MLLP if name in found.relays else "fhir",
            overtaken=name in found.overtaken,
            verdict=one.verdict.kind,
            reason=one.verdict.reason,
            notes=one.verdict.notes,
        )
        for name, one in found.by_destination.items()
    )
    return DryRunView.of(found, entry=seq, refused=refused, destinations=destinations)


def check_reason(reason: str, what: str, option: str = "--reason") -> None:
    """UsageError where no reason is given, or one that is too long."""
    if not reason.strip():
        raise UsageError(f"say why {what}: {option} TEXT")
    if len(reason) > MOST_REASON:
        raise UsageError(f"say in {MOST_REASON} characters why {what}: {option} TEXT")


def _matches(question: PatientQuestion) -> tuple[Match, ...]:
    found = []
    for match in question.matches:
        who = person(match.body)
        found.append(
            Match(
                patient=match.logical_id,
                active=match.body.get("active") is not False,
                merged=bool(replaced_by(match.body)),
                name=f"{who.family}, {who.given}".strip(", "),
                birthDate=who.birth_date,
                gender=who.gender,
                identifiers=tuple("|".join(number) for number in current_numbers(match.body)),
                carries=tuple("|".join(number) for number in question.identities if carries(match.body, number)),
                links=tuple(links_of(match.body)),
            )
        )
    return tuple(found)


ENTRIES: Final = (
    ReplayMessage, ReleaseMessage, RetryMessage, DiscardMessage, DryRunMessage, EditMessage, ListMatches,
    ResolvePatient,
)  # fmt: skip
