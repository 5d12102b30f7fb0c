"""A destination: carries out plans at one FHIR server and returns a verdict on each."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

from engine.config.channel import Channel
from engine.config.destination import CLIENT_ID
from engine.config.destination import Destination as Settings
from engine.deliver.interactions import carry_out, ending, patients_of
from engine.deliver.lookup import UNSUPPORTED, LookUpClient
from engine.deliver.merge.number_forms import bring_into_form
from engine.deliver.notice import UNSUPPORTED as NOTICE_UNSUPPORTED
from engine.deliver.notice import Notice, NoticeClient
from engine.deliver.patient.chart import Alike, PatientChart, alike, chart, records
from engine.deliver.patient.question import PatientQuestion, question
from engine.deliver.reply import RequestReply
from engine.deliver.stored import Cache, ServerResource
from engine.deliver.throttling import MOST_LOCK_REFUSALS
from engine.deliver.verdict import Failure, Verdict, VerdictKind
from engine.deliver.wire.abilities import NO_CLIENT_IDS, Abilities, abilities_of
from engine.deliver.wire.authorizer import Authorizer
from engine.deliver.wire.client import FhirClient, ServerResponse, contexts
from engine.deliver.wire.dry_run import DryRun, DryRunServer, unremembered
from engine.deliver.wire.exchange import Exchange, Memory, versions
from engine.deliver.wire.failure import class_of, error_of, failure_of
from engine.deliver.wire.oauth import clock_codes
from engine.deliver.wire.proxy import route_of
from engine.deliver.wire.rate import RateLimiter
from engine.deliver.wire.server import MEDIA_TYPE, REFUSED, Caches, Continuity, DestinationServer, Fence, FixedHeaders
from engine.errors import DeliveryError, DestinationError, HeldDeliveryError, InvolvedRecord, RejectedDeliveryError
from engine.fhir.outcome import codes
from engine.fhir.plan import Find, Identity, Keep, Merge, Plan, Upsert
from engine.http.request import HttpRequest
from engine.http.tls import KeyPair

# The patient's name within a plan, as of `PatientRecord.local`.
PATIENT_NAME: Final = "patient"
# What a second time finds done by reading. Others, and what names all that was written (Attest), go by their intents.
REPEATABLE: Final = (Upsert, Keep, Find)
VISIT: Final = "Encounter"
# A search that finds nobody, whoever is asked.
NOBODY: Final = "Patient?identifier=urn%3Aadt-engine%7Cnobody&_count=1"
# How often a delivery is begun in a row while other connections to the server are lost.
MOST_STARTS: Final = 3


class FhirDestination:
    """One FHIR server with the policies of a channel.

    `clock` tells the time of day for assertions of OAuth2, `new_id` makes their ids; `ticks` is a monotonic clock.
    `observe` hears what becomes of the engine's own certificate once its files have changed.
    """

    def __init__(
        self,
        settings: Settings,
        channel: Channel,
        *,
        clock: Callable[[], datetime],
        new_id: Callable[[], str],
        ticks: Callable[[], float] | None = None,
        cache_patients: int = 10_000,
        fence: Fence | None = None,
        observe: Callable[[str], None] = lambda _kind: None,
    ) -> None:
        self.settings = settings
        self._channel = channel
        self._checked = False
        self._clock = clock
        connect = partial(
            FhirClient,
            request_seconds=settings.timeout_seconds,
            tls=contexts(settings.ca_file, certificate_of(settings), observe),
            proxy=route_of(settings),
        )
        self._token_client = connect(journaled=False)
        ticks = ticks or _ticks
        authorizer = Authorizer(settings.auth, self._token_client, clock=clock, ticks=ticks, new_id=new_id)
        caches = Caches(Cache(cache_patients, ticks=ticks))
        continuity = Continuity(ticks, caches.clear, caches.doubt)
        client = connect(lost=continuity.broken)
        headers = FixedHeaders(settings.headers, ticks) if settings.headers else None
        limiter = None if settings.rate is None else RateLimiter(settings.rate, ticks)
        self._server = DestinationServer(settings, client, authorizer, caches, continuity, fence, headers, limiter)
        self._lookups = LookUpClient(self._server, ticks)
        self._notices = NoticeClient(self._server)
        self.proofs = self._server.proofs

    @property
    def abilities(self) -> Abilities:
        """What the server can do, as `check` last found."""
        return self._server.abilities

    def keeps(self, type_: str) -> bool:
        """Say whether the server keeps a type of R4, as far as `check` found which it keeps."""
        return self._server.keeps(type_)

    def missing(self) -> tuple[str, ...]:
        """Return codes for what cannot be relied on, as far as it was found: of the server, and of its operations."""
        lacks = {
            UNSUPPORTED: self._lookups.unsupported,
            NOTICE_UNSUPPORTED: self._notices.unsupported,
            NO_CLIENT_IDS: self.settings.create == CLIENT_ID and self.abilities.update_create is False,
        }
        return (*self.abilities.missing(), *(code for code, lacking in lacks.items() if lacking))

    async def request(self, method: str, path: str, body: bytes = b"") -> ServerResponse:
        """Return the answer to one request of the caller's own, whatever it says; `path` may be a whole URL there."""
        base = self._server.base
        url = path if path.startswith((f"{base}/", f"{base}?")) else f"{base}/{path}"
        return await self._server.ask(method, url, (("Content-Type", MEDIA_TYPE),) if body else (), body)

    def inward(self, body: Any) -> Any:
        """Return a resource of the server in R4; anything else as it is."""
        return self._server.inward(body)

    async def check(self) -> Abilities:
        """Ask for the CapabilityStatement and keep what it says.

        A server that answers without one can be relied on for nothing. Raises DeliveryError where no answer comes, or
        one that says nothing of the server's abilities (429, 5xx).
        """
        answer = await self._server.ask("GET", f"{self._server.base}/metadata", ())
        failure = failure_of(answer.status, write=False)
        if failure is Failure.TRANSIENT:
            raise error_of(failure, f"http-{answer.status}", answer.status, codes(answer.json))
        abilities = abilities_of(answer.json if failure is Failure.NONE else None)
        self._server.abilities = abilities.proven(self.proofs.known.get(abilities.server))
        self._server.transactions_failed = self._server.creates_watched = 0
        self._checked = True
        return self._server.abilities

    async def try_sign_in(self) -> None:
        """Search for nobody, which a server that asks for a sign-in answers to those only who have one.

        Raises DeliveryError where no answer comes, DestinationError `http-401` or `http-403` where it refuses; where
        a signature of the request is refused, with the code of clocks that differ.
        """
        answer = await self._server.ask("GET", f"{self._server.base}/{NOBODY}", ())
        if answer.status in REFUSED:
            signs = self.settings.auth.type == "aws_sigv4"
            clock = clock_codes(answer.headers.get("date", ""), self._clock()) if signs else ()
            reason = f"http-{answer.status}"
            raise DestinationError(reason, status=answer.status, codes=(reason, *clock))

    async def deliver(  # noqa: PLR0913 - what is known of one delivery, by name
        self,
        plan: Plan,
        memory: Memory,
        journal_intent: Callable[[HttpRequest], Awaitable[None]],
        *,
        at: datetime,
        replay: bool = False,
        ambiguous: bool = False,
        attempts_made: int = 0,
        channel: Channel | None = None,
        decided: Collection[str] = (),
        entry: int = 0,
        lock_refusals: int = 0,
    ) -> Verdict:
        """Carry out a plan and return the verdict; `journal_intent` is awaited before each write is sent.

        `ambiguous`: an earlier attempt may have been applied, so the server is read first; so is it on a replay.
        `attempts_made` is the number of the last attempt journaled; `channel` gives the policies of another channel.
        `decided`: the holds that somebody has decided; `entry`: the number of the entry. `lock_refusals`: how often
        in a row the last tries were refused for a lock. Errors of the journal pass through.
        """
        channel = channel or self._channel
        exchange = Exchange(
            self._server, channel, memory, journal_intent, at=at, source=plan.source, attempts_made=attempts_made,
            decided=decided,
        )  # fmt: skip
        exchange.entry = entry
        exchange.again = exchange.tried and not replay
        exchange.repeatable = all(isinstance(interaction, REPEATABLE) for interaction in plan.interactions)
        exchange.waits_for_locks = lock_refusals < MOST_LOCK_REFUSALS
        again = exchange.again and not 0 < lock_refusals < MOST_LOCK_REFUSALS
        alone = again or ambiguous or self.settings.bundle == "off"
        exchange.bundles = self._server.abilities.transaction and not alone
        self._server.continuity.check()
        try:
            verdict = await self._outcome(exchange, plan, remembered=not (ambiguous or replay))
            for _ in range(MOST_STARTS - 1):
                if not exchange.interrupted:
                    break
                exchange.start_again(replay=replay)
                verdict = await self._outcome(exchange, plan, remembered=False)
        except BaseException:
            self.forget(plan)
            raise
        if verdict.kind is not VerdictKind.DELIVERED:
            self.forget(plan)
        return verdict

    async def dry_run(
        self,
        plan: Plan,
        memory: Memory,
        *,
        at: datetime,
        attempts_made: int = 0,
        channel: Channel | None = None,
        decided: Collection[str] = (),
    ) -> DryRun:
        """Return what carrying out a plan would do at the server now: reads are made, writes are not.

        Starts from what the server says, as a replay does, and leaves nothing behind. Arguments as of `deliver`.
        """
        server = DryRunServer(self._server)
        channel = channel or self._channel
        exchange = Exchange(
            server, channel, memory, _unjournaled, at=at, source=plan.source, attempts_made=attempts_made,
            decided=decided,
        )  # fmt: skip
        verdict = await self._outcome(exchange, plan, remembered=False)
        return DryRun(unremembered(verdict), tuple(server.calls), server.differences())

    async def question(self, plan: Plan, memory: Memory, *, at: datetime, named: str = "") -> PatientQuestion:
        """Return which records of the server a plan's patient may be, and whether the `named` one is such.

        DeliveryError where the server does not answer.
        """
        server = DryRunServer(self._server)
        exchange = Exchange(server, self._channel, memory, _unjournaled, at=at, source=plan.source)
        return await question(exchange, plan, named)

    async def chart(self, identities: Sequence[Identity], memory: Memory, *, at: datetime) -> PatientChart:
        """Return what the server holds under identifiers now; DeliveryError where it does not answer."""
        server = DryRunServer(self._server)
        exchange = Exchange(server, self._channel, memory, _unjournaled, at=at, source="")
        return await chart(exchange, identities)

    async def alike(self, identities: Sequence[Identity], memory: Memory, *, at: datetime) -> Alike:
        """Return a patient's record and those that may be the same person; DeliveryError where no answer comes."""
        exchange = Exchange(DryRunServer(self._server), self._channel, memory, _unjournaled, at=at, source="")
        return await alike(exchange, identities)

    async def records(self, ids: Sequence[str], memory: Memory, *, at: datetime) -> dict[str, ServerResource]:
        """Return the Patients of some ids as they are now; DeliveryError where no answer comes."""
        exchange = Exchange(DryRunServer(self._server), self._channel, memory, _unjournaled, at=at, source="")
        return await records(exchange, ids)

    async def look_up(self, patient: str, at: datetime) -> RequestReply:
        """Ask that a patient (`Patient/1`) be looked up on the networks; nothing is raised."""
        return await self._lookups.ask(patient, at)

    async def notify(self, notice: Notice, at: datetime) -> RequestReply:
        """Tell the server of an ADT event; nothing is raised."""
        return await self._notices.tell(notice, at)

    async def lookup_base(self) -> str:
        """Return the base that is asked for look-ups, '' where there is none; DeliveryError where nobody says."""
        return await self._lookups.base()

    async def _outcome(self, exchange: Exchange, plan: Plan, *, remembered: bool) -> Verdict:
        exchange.note(*plan.warnings)
        try:
            if not self._checked and any(isinstance(interaction, Merge) for interaction in plan.interactions):
                exchange.server.abilities = await self.check()
            if plan.originals:
                await bring_into_form(exchange, plan)
            endings = await carry_out(exchange, plan, remembered=remembered)
        except DeliveryError as error:
            return _failed(exchange, error)
        visit = _visit(exchange, plan)
        return _verdict(exchange, VerdictKind.DELIVERED, ending(plan, endings), applied=True, visit=visit)

    def forget(self, plan: Plan) -> None:
        """Drop from the caches what a plan speaks of: nobody knows how far it came, or others have written it."""
        self._server.cache.forget(patients_of(plan))
        for one in plan.interactions:
            if isinstance(one, Keep):
                self._server.cache_of(one.record.type).forget((*one.record.identities, *one.record.retired))

    def retry_now(self) -> None:
        """Ask for a token at once, whenever it is needed next, where the last one could not be had."""
        self._server.authorizer.retry_now()

    async def close(self) -> None:
        """Close all connections."""
        await self._server.close()
        await self._token_client.close()


def certificate_of(settings: Settings) -> KeyPair | None:
    """Return the files of the engine's own certificate for a destination, None where it has none."""
    if settings.client_certificate is None or settings.client_key is None:
        return None
    names = ("client_certificate", "client_key")
    return KeyPair(Path(settings.client_certificate), Path(settings.client_key), names)


def _failed(exchange: Exchange, error: DeliveryError) -> Verdict:
    failure = class_of(error)
    exchange.note(*error.codes)
    if isinstance(error, RejectedDeliveryError):
        return _verdict(exchange, VerdictKind.REJECTED, error.reason, failure=failure, involved=error.involved)
    if isinstance(error, HeldDeliveryError):
        return _verdict(exchange, VerdictKind.HELD, error.reason, failure=failure, involved=error.involved)
    kind = VerdictKind.HELD if failure is Failure.PERMANENT else VerdictKind.RETRY
    return _verdict(exchange, kind, str(error), failure=failure, retry_after_seconds=error.retry_after_seconds)


def _verdict(
    exchange: Exchange,
    kind: VerdictKind,
    reason: str,
    *,
    failure: Failure = Failure.NONE,
    retry_after_seconds: float = 0.0,
    applied: bool = False,
    visit: str = "",
    involved: tuple[InvolvedRecord, ...] = (),
) -> Verdict:
    return Verdict(
        kind,
        reason,
        tuple(exchange.notes),
        failure,
        retry_after_seconds,
        tuple(exchange.attempts),
        tuple(exchange.known.values()),
        tuple(exchange.owned.values()),
        tuple(exchange.merges),
        applied,
        tuple(exchange.inherited),
        unasked=not exchange.heard,
        patient=exchange.references.get(PATIENT_NAME, "") if applied else "",
        visit=visit,
        involved=involved,
        versions=versions(exchange),
    )


def _visit(exchange: Exchange, plan: Plan) -> str:
    """Return the visit of a plan's patient as the server names it, empty where there is none."""
    records = (interaction.record for interaction in plan.interactions if isinstance(interaction, Keep))
    visits = (record.local for record in records if record.type == VISIT and record.patient == PATIENT_NAME)
    return next((exchange.references[local] for local in visits if local in exchange.references), "")


async def _unjournaled(_request: HttpRequest) -> None:
    """Stand in for the journal where nothing is sent."""


def _ticks() -> float:
    return asyncio.get_running_loop().time()
