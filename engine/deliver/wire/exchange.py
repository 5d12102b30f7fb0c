"""The exchange of one delivery with its server: reads, journaled writes, the account of all of it, and its memory."""

import contextlib
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final, Protocol
from urllib.parse import quote

from engine.config.channel import Channel
from engine.deliver.stored import PATIENT, Body, ServerResource, id_of, stored
from engine.deliver.throttling import retry_after_seconds
from engine.deliver.verdict import Failure, HttpAttempt, KnownIdentifier, WrittenVersion
from engine.deliver.wire.client import ServerResponse, escaped
from engine.deliver.wire.failure import LOCK_REFUSED, class_of, error_of, failure_of
from engine.deliver.wire.learned import Learned
from engine.deliver.wire.response_log import EchoResponse, ResponseLog, name_of
from engine.deliver.wire.server import MEDIA_TYPE, DestinationServer
from engine.errors import DeliveryError, HeldDeliveryError, InterruptedDeliveryError, InvolvedRecord
from engine.fhir import outcome
from engine.fhir.event import moment_of
from engine.fhir.plan import Identity
from engine.fhir.schema import FhirVersion, defects, resource_types
from engine.http.request import HttpRequest


class Memory(Protocol):
    """Reads what earlier verdicts noted, for one destination."""

    async def known(self, identities: Sequence[Identity]) -> Mapping[Identity, KnownIdentifier]:
        """Return what is known of the identifiers; those never seen are left out."""

    def other_forms(self, identity: Identity) -> tuple[Identity, ...]:
        """Return the spellings in which a number was known before it had a form (`normalise`)."""

    async def owned(self, resource: str, source: str) -> Mapping[str, tuple[str, ...]]:
        """Return the digests a source last wrote to `Patient/<id>`, by slice; empty where there is no record."""

    async def claimed(self, resource: str, source: str) -> frozenset[str]:
        """Return the digests of all that other sources last wrote to a resource, or found there as they said it."""

    async def merged(self, source: Identity, survivor: Identity) -> bool:
        """Say whether this merge was carried out before."""

    async def leads(self, source: Identity, survivors: Sequence[Identity]) -> bool:
        """Say whether an identifier was merged into one of others, directly or through others."""

    async def survivor(self, logical_id: str) -> str:
        """Return the id of the Patient that one was merged into; empty where that is not known."""


_TAG: Final = re.compile(r'(?:W/)?"([A-Za-z0-9.-]{1,64})"', re.ASCII)
_OF_VERSION: Final = re.compile(r"/_history/([A-Za-z0-9.-]{1,64})$", re.ASCII)
INVALID: Final = "invalid-output"
MOST_PLACES: Final = 5


def faults(resource: dict[str, Any], fhir: str) -> tuple[str, ...]:
    """Return codes for what is wrong with a resource: `invalid-output` and the first places, never a value.

    Empty for a valid one. A resource type that the version does not have is one fault.
    """
    version = FhirVersion(fhir)
    type_ = str(resource.get("resourceType"))
    if type_ not in resource_types(version):
        return (INVALID, f"{INVALID} {type_}")
    places = dict.fromkeys(defect.path for defect in defects(resource, version))
    return (INVALID, *(f"{INVALID} {place}" for place in list(places)[:MOST_PLACES])) if places else ()


GONE: Final = frozenset({404, 410})
TOO_LARGE: Final = "answer-too-large"
WENT_BACK: Final = "server-went-back"
INTERRUPTED: Final = "server-interrupted"

Intend = Callable[[HttpRequest], Awaitable[None]]


class Exchange(Learned):
    """What one delivery asks of one server, in order; collects attempts, notes and what is to be remembered.

    `tried`: an earlier try of this delivery wrote, or was about to. `references`: the resources of the plan that
    are resolved, by local name; `waiting` those that are resolved once something refers to them; `trusted` those of
    them about which the server was not asked; `pointed` those that are only referred to, `unfound` those of them
    that the server does not have; `made` the references of what was created, `retired` the numbers of what was
    merged into another one, Patients aside. `again`: this is a further try, and no replay, of a delivery. `heard`:
    the server has answered something. `interrupted`: a write was not sent, because a connection was lost since this
    exchange began. `bundles`: several writes may go in one transaction; `response_log`: the responses so far.
    `repeatable`: all that the plan writes shows in what it writes, once it is read. `decided`: holds that a person
    has decided, each a code and its place; `place`: that of the interaction at hand, among several of its kind.
    `entry`: the number of the entry, 0 without one. `waits_for_locks`: what is refused for a lock is to come again as
    it is, after a pause. `writes`: method, path and answer of each write so far.
    """

    def __init__(
        self,
        server: DestinationServer,
        channel: Channel,
        memory: Memory,
        intend: Intend,
        *,
        at: datetime,
        source: str,
        attempts_made: int = 0,
        decided: Collection[str] = (),
    ) -> None:
        super().__init__()
        self.server = server
        self.channel = channel
        self.memory = memory
        self.source = source
        self.attempts: list[HttpAttempt] = []
        self.interrupted = False
        self.again = False
        self.bundles = False
        self.repeatable = False
        self.decided = decided
        self.entry = 0
        self.waits_for_locks = False
        self.place = ""
        self.response_log = ResponseLog()
        self.more = False
        self.writes: list[tuple[str, str, ServerResponse | None]] = []
        self._intend = intend
        self._at = at
        self.tried = attempts_made > 0
        self._number = attempts_made
        self._breaks = server.continuity.breaks

    def draft(self, server: DestinationServer) -> "Exchange":
        """Return a copy of this exchange in its present state, with another server."""
        other = Exchange(
            server, self.channel, self.memory, _unjournaled, at=self._at, source=self.source, attempts_made=self._number
        )
        other.tried, other.again, other.decided, other.entry = self.tried, self.again, self.decided, self.entry
        other.waits_for_locks = self.waits_for_locks
        other.adopt(self)
        return other

    def start_again(self, *, replay: bool) -> None:
        """Forget what was resolved: the delivery begins anew at a server of which a connection was lost."""
        self.unlearn()
        self.response_log = ResponseLog()
        self.interrupted = self.bundles = False
        self.tried, self.again = True, not replay
        self._breaks = self.server.continuity.breaks

    def hold(self, code: str, *, involved: tuple[InvolvedRecord, ...] = ()) -> None:
        """Hold for what a person has to decide; once that is done, for this place of the message, it is noted."""
        here = f"{code} {self.place}" if self.place else code
        if here not in self.decided:
            raise HeldDeliveryError(code, codes=(here,) if self.place else (), involved=involved)
        self.note(code)

    async def owned_slices(self, patient: ServerResource) -> Mapping[str, tuple[str, ...]]:
        """Return what the plan's source owns of a resource."""
        held = self.owned.get(patient.reference)
        if held is not None:
            return held.slices
        if patient.reference in self.made:
            return {}  # what the journal knows under this id was another one's
        remembered = self.server.cache_of(patient.type_).owned(patient.logical_id, self.source)
        if remembered is not None:
            return remembered
        return await self.memory.owned(patient.reference, self.source)

    async def read(self, logical_id: str, type_: str = PATIENT) -> ServerResource | None:
        """Read a resource; None where there is none (any more); `deleted` then says whether it was deleted."""
        answer = await self.look(logical_id, type_)
        self.deleted = self.deleted or answer.status == 410
        if answer.status in GONE:
            self.server.forget()  # a record that is read by id was there before
            return None
        found = self._resource(answer, type_, write=False)
        if self.server.cache_of(type_).met(found):
            self._went_back()
        return found

    def recall(self, type_: str, identities: Sequence[Identity]) -> ServerResource | None:
        """Return the resource that identities are remembered to stand for; None where none is."""
        return self.response_log.find(type_, identities) or self.server.cache_of(type_).find(identities)

    def still(self, patient: ServerResource) -> bool:
        """Say whether a resource may be written upon: read in this delivery, written in it, or known still."""
        url, log = f"{self.server.base}/{patient.reference}", self.response_log
        if patient.fresh or (log and name_of("PUT", url, patient.if_match) in log):
            return True
        self.server.continuity.check()
        return self.server.cache_of(patient.type_).holds(patient)

    def new(self, made: ServerResource) -> ServerResource:
        """Return a resource that was just created; an id that was given before says that the server has gone back."""
        if self.server.cache_of(made.type_).was_given(made):
            self._went_back()
        return made

    async def read_again(self, before: ServerResource) -> ServerResource | None:
        """Read a resource again; one that went back, or is another's now, says that the server has gone back."""
        self.server.cache_of(before.type_).drop(before.logical_id)
        now = await self.read(before.logical_id, before.type_)
        if now is not None and (now.older_than(before) or not now.same_as(before)):
            self._went_back()
        return now

    def _went_back(self) -> None:
        """Forget and note it: the server was restored, as far as that shows."""
        self.server.forget()
        self.note(WENT_BACK)

    async def look(self, logical_id: str, type_: str) -> ServerResponse:
        """Return the answer to a read, in the server's FHIR version; one with 404 or 410, too."""
        return await self._get(f"{self.server.base}/{type_}/{logical_id}", GONE)

    async def search(self, query: str, type_: str = PATIENT, named: str = "") -> tuple[ServerResource, ...]:
        """Return the resources of a type that a query finds, each once; at most the first page: `more` says of others.

        `named`: what the server's FHIR version calls the type, where that is another name.
        """
        answer = await self._get(f"{self.server.base}/{named or type_}?{query}")
        bundle = answer.json
        if not isinstance(bundle, dict) or bundle.get("resourceType") != "Bundle":
            raise error_of(Failure.TRANSIENT, "no-bundle", answer.status, ("no-bundle",))
        self.more = any(isinstance(link, dict) and link.get("relation") == "next" for link in bundle.get("link") or ())
        found: dict[str, ServerResource] = {}
        for entry in bundle.get("entry") or ():
            mode = (entry.get("search") or {}).get("mode", "match") if isinstance(entry, dict) else ""
            patient = stored(self.server.inward(entry.get("resource")), {}, type_) if mode == "match" else None
            if patient is not None:
                found[patient.logical_id] = self._met(patient)
        return tuple(found.values())

    async def find(self, identities: Iterable[Identity]) -> tuple[ServerResource, ...]:
        """Return the Patients that a server knows under any of the identifiers, by one search."""
        tokens = ",".join(f"{escaped(system)}|{escaped(value)}" for system, value in identities)
        return await self.search(f"identifier={quote(tokens, safe='')}")

    async def write_patient(
        self, method: str, path: str, body: Body, headers: tuple[tuple[str, str], ...], spoken: frozenset[int]
    ) -> ServerResponse:
        """Write a resource; statuses in `spoken` are returned, other failures raised.

        HeldDeliveryError `invalid-output` where the channel refuses to send what the FHIR schema does not allow.
        """
        outward = self.server.outward(body)
        if self.channel.check_output != "off":
            self._check(outward)
        echo = EchoResponse(outward)
        read = echo.read if outward is body else None
        return await self.write(method, path, echo.content, headers, spoken, read=read)

    def _check(self, outward: Body) -> None:
        found = faults(outward, self.server.settings.fhir)
        self.note(*found)
        if found and self.channel.check_output == "refuse":
            raise HeldDeliveryError(INVALID)

    async def write(
        self,
        method: str,
        path: str,
        content: bytes,
        headers: tuple[tuple[str, str], ...] = (),
        spoken: frozenset[int] = frozenset(),
        *,
        changes: bool = True,
        read: Callable[[bytes], Any] | None = None,
    ) -> ServerResponse:
        """Journal the intent unless none is needed, send a write and account for it; what was answered is sent no more.

        `spoken`: refusals that the caller deals with. `changes` False: a preview, as safe to repeat as a read. Without
        a path it is a Bundle, which goes to the base. `read`: how the answer may be read without parsing it.
        """
        url = f"{self.server.base}/{path}" if path else self.server.base
        recorded = self.response_log.take(name_of(method, url, headers)) if self.response_log else None
        if recorded is not None:
            self.writes.append((method, path, recorded))
            return recorded
        names = (("Content-Type", MEDIA_TYPE), *headers)
        request = self._request(method, url, names, content)
        journaled = not self._repeats_safely(method, headers)
        if journaled:
            await self._intend(request)
        try:
            self._check_unbroken()
            answer = await self.server.ask(method, request.url, names, content)
        except DeliveryError as error:
            self._account(request, error, changes=changes, journaled=journaled)
            raise _reclassed(error, write=changes) from error
        self.heard = True
        if read is not None:
            answer.read_by(read)
        failure = failure_of(answer.status, write=changes)
        codes = outcome.codes(answer.json)
        locked = _is_locked(self, answer)
        if locked:
            failure = Failure.TRANSIENT
        elif failure is Failure.NONE and outcome.is_fault(answer.json):
            failure, codes = Failure.AMBIGUOUS, ("success-with-error", *codes)
        if changes and failure is Failure.NONE:
            self.writes.append((method, path, answer))
            if method == "POST" or answer.status == 201:
                self.made.add(_written(method, path, answer))
        kept = b"" if changes and failure is Failure.NONE else answer.body
        self.attempts.append(HttpAttempt(request, answer.status, codes, failure, answer.milliseconds, kept, journaled))
        if locked or (failure is not Failure.NONE and answer.status not in spoken):
            raise _refusal(answer, failure, codes, locked=locked, at=self._at)
        return answer

    def _check_unbroken(self) -> None:
        """Send nothing that was made of what a server showed before a connection to it was lost."""
        if self.server.continuity.breaks != self._breaks:
            raise self.interrupt()

    def interrupt(self) -> InterruptedDeliveryError:
        """Return the error after which this delivery begins anew: the server is not what it was when it was read."""
        self.interrupted = True
        self.server.forget()
        return InterruptedDeliveryError(INTERRUPTED, codes=(INTERRUPTED,))

    def _repeats_safely(self, method: str, headers: tuple[tuple[str, str], ...]) -> bool:
        """Say whether a write needs no intent: an update that the server refuses once it was applied.

        A new process starts from what the server says, and finds nothing left to do. Saves a commit a message.
        """
        versioned = method == "PUT" and any(name == "If-Match" for name, _ in headers)
        return self.repeatable and versioned and self.server.abilities.if_match

    def written(self) -> tuple[str, ...]:
        """Return what was written so far, as `Patient/1`, each once and in order; not what was deleted."""
        found = (_written(method, path, answer) for method, path, answer in self.writes)
        return tuple(dict.fromkeys(one for one in found if one))

    def wrote(self, reference: str) -> None:
        """Note a resource that an operation wrote."""
        self.writes.append(("PUT", reference, None))

    def patient_of(self, answer: ServerResponse, type_: str = PATIENT) -> ServerResource:
        """Return the Patient that a write answered with, or a resource of another type; else AmbiguousDeliveryError."""
        return self._resource(answer, type_, write=True)

    async def _get(self, url: str, spoken: frozenset[int] = frozenset()) -> ServerResponse:
        try:
            answer = self.response_log.take(name_of("GET", url)) or await self.server.ask("GET", url, ())
        except DeliveryError as error:
            self._account(self._request("GET", url, (), b""), error, changes=False, journaled=False)
            raise _reclassed(error, write=False) from error
        self.heard = True
        locked = _is_locked(self, answer)
        failure = Failure.TRANSIENT if locked else failure_of(answer.status, write=False)
        if failure is Failure.NONE or (answer.status in spoken and not locked):
            return answer
        codes, request = outcome.codes(answer.json), self._request("GET", url, (), b"")
        attempt = HttpAttempt(request, answer.status, codes, failure, answer.milliseconds, answer.body, journaled=False)
        self.attempts.append(attempt)
        raise _refusal(answer, failure, codes, locked=locked, at=self._at)

    def _met(self, found: ServerResource) -> ServerResource:
        """Return a match of a search, which some servers show as it was a while ago."""
        if self.server.cache_of(found.type_).met(found):
            self.server.forget()
        return found

    def _resource(self, answer: ServerResponse, type_: str, *, write: bool) -> ServerResource:
        resource = stored(self.server.inward(answer.json), answer.headers, type_)
        if resource is None:
            failure = Failure.AMBIGUOUS if write else Failure.TRANSIENT
            reason = "no-patient-in-answer" if type_ == PATIENT else "no-resource-in-answer"
            raise error_of(failure, reason, answer.status, (reason,))
        return resource

    def _request(self, method: str, url: str, headers: tuple[tuple[str, str], ...], content: bytes) -> HttpRequest:
        self._number += 1
        return HttpRequest(self._number, method, url, headers, content, self._at)

    def _account(self, request: HttpRequest, error: DeliveryError, *, changes: bool, journaled: bool) -> None:
        failure = class_of(_reclassed(error, write=changes))
        self.attempts.append(HttpAttempt(request, error.status, error.codes, failure, 0.0, b"", journaled))


def _is_locked(exchange: Exchange, answer: ServerResponse) -> bool:
    """Say whether the server refused a request for a lock, and it is to come again for that."""
    refusal = exchange.server.settings.behaviour.lock_refusal
    return exchange.waits_for_locks and refusal.matches(answer.status, answer.body)


def _refusal(
    answer: ServerResponse, failure: Failure, codes: tuple[str, ...], *, locked: bool, at: datetime
) -> DeliveryError:
    wait = retry_after_seconds(answer.headers.get("retry-after", ""), at)
    if locked:
        return error_of(Failure.TRANSIENT, LOCK_REFUSED, answer.status, (LOCK_REFUSED, *codes), wait)
    reason = "success-with-error" if answer.status < 300 else f"http-{answer.status}"
    return error_of(failure, reason, answer.status, codes, wait)


def _reclassed(error: DeliveryError, *, write: bool) -> DeliveryError:
    """Return an error as it counts: a read that nobody knows the end of has changed nothing."""
    if write or class_of(error) is not Failure.AMBIGUOUS:
        return error
    failure = Failure.PERMANENT if TOO_LARGE in error.codes else Failure.TRANSIENT
    return error_of(failure, str(error), error.status, error.codes)


def _written(method: str, path: str, answer: ServerResponse | None) -> str:
    """Return the reference of what a write wrote; empty for a deletion, a match and an operation."""
    if method == "PUT":
        return path
    if method != "POST" or answer is None or answer.status != 201:
        return ""
    body = answer.json
    own = body.get("id") if isinstance(body, dict) and body.get("resourceType") == path else ""
    logical_id = own or id_of(answer.headers.get("location", ""), path)
    return f"{path}/{logical_id}" if logical_id else ""


def versions(exchange: Exchange) -> tuple[WrittenVersion, ...]:
    """Return the versions that were written, as far as the answers tell them."""
    stated = [WrittenVersion(_place_of(*one), _version_of(one[2]), _moment_of(one[2])) for one in exchange.writes]
    deleted = {path for method, path, _ in exchange.writes if method == "DELETE"}
    found = (*stated, *exchange.proven)
    return tuple(one for one in found if one.reference and (one.version or (one.at and one.reference in deleted)))


def _place_of(method: str, path: str, answer: ServerResponse | None) -> str:
    """Return the reference of what a write wrote or deleted; empty for a match and an operation."""
    return path if method == "DELETE" else _written(method, path, answer)


def _version_of(answer: ServerResponse | None) -> str:
    """Return the version that an answer to a write names; '' where it names none."""
    if answer is None:
        return ""
    tag = _TAG.fullmatch(answer.headers.get("etag", ""))
    if tag:
        return tag[1]
    version = _meta_of(answer).get("versionId")
    if isinstance(version, str):
        return version
    place = _OF_VERSION.search(answer.headers.get("location", ""))
    return place[1] if place else ""


def _moment_of(answer: ServerResponse | None) -> datetime | None:
    """Return when a write was made by the server's clock: as its answer says, else when it was given."""
    if answer is None:
        return None
    if (said := moment_of(_meta_of(answer).get("lastUpdated"))) is not None:
        return said
    for name in ("last-modified", "date"):
        with contextlib.suppress(ValueError):
            given = parsedate_to_datetime(answer.headers.get(name, ""))
            return given if given.tzinfo is not None else given.replace(tzinfo=UTC)
    return None


def _meta_of(answer: ServerResponse) -> dict[str, Any]:
    body = answer.json
    meta = body.get("meta") if isinstance(body, dict) else None
    return meta if isinstance(meta, dict) else {}


async def _unjournaled(_request: HttpRequest) -> None:
    """Stand in for the journal where nothing is sent."""
