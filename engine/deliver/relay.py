"""A relay: a system that gets HL7 v2 messages by MLLP; each is delivered once it is acknowledged.

A message leaves as one block, and the next one over the same connection after its acknowledgement. Where none comes the
connection is closed and the same bytes are sent again over a new one: at least once, in order. A receiver that closes
after each message gets a connection for each, so that none is sent into one that is about to end.
"""

import asyncio
import re
import ssl
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple

from engine import fault
from engine.config.relay import Relay, RelayTls
from engine.deliver.verdict import Failure, HttpAttempt, Verdict, VerdictKind
from engine.deliver.wire.client import CONNECTING, contexts
from engine.deliver.wire.failure import class_of, error_of
from engine.deliver.wire.server import Fence
from engine.deliver.wire.transport import CertificateRefusedError, refuses_certificate
from engine.errors import DeliveryError
from engine.http.request import HttpRequest
from engine.http.tls import KeyPair
from engine.mllp.acknowledgement import Ack, read_acks
from engine.mllp.client import MllpConnection, NoBlockError, connect

METHOD: Final = "MLLP"
# Why a message is held, or tried again; the receiver's own words are with the attempt.
RECEIVER_ERROR: Final = "receiver-error"
RECEIVER_REFUSED: Final = "receiver-refused"
OUTCOME_UNKNOWN: Final = "outcome-unknown"
END_WITHIN: Final = "end-within-message"
# The note of a message that was sent before, where nobody can tell whether the receiver has it.
SENT_AGAIN: Final = "sent-again"
LOST: Final = "connection-lost"
LATE: Final = "timeout"
UNREADABLE: Final = "answer-unreadable"
# What MSA-1 means: acknowledged by the application, or accepted by a commit; refused. An error is as the relay says.
MEANINGS: Final = {
    "AA": (VerdictKind.DELIVERED, "acknowledged", Failure.NONE),
    "CA": (VerdictKind.DELIVERED, "accepted", Failure.NONE),
    "AR": (VerdictKind.HELD, RECEIVER_REFUSED, Failure.PERMANENT),
    "CR": (VerdictKind.HELD, RECEIVER_REFUSED, Failure.PERMANENT),
}
ERRORS: Final = frozenset({"AE", "CE"})
COMMITS: Final = frozenset({"CA", "CE", "CR"})
ON_ERROR: Final = {
    "hold": (VerdictKind.HELD, RECEIVER_ERROR, Failure.PERMANENT),
    "retry": (VerdictKind.RETRY, RECEIVER_ERROR, Failure.TRANSIENT),
    "continue": (VerdictKind.DELIVERED, RECEIVER_ERROR, Failure.NONE),
}
# What an error after the message was sent means, first match wins.
SENT: Final = (
    (CertificateRefusedError, "client-certificate-refused", Failure.DESTINATION),
    (TimeoutError, LATE, Failure.AMBIGUOUS),
    (OSError, LOST, Failure.AMBIGUOUS),
    (ValueError, UNREADABLE, Failure.AMBIGUOUS),
)
# An acknowledgement is kept with the status of HTTP that says the same, as attempts at FHIR servers are.
STATUSES: Final = {"AA": 200, "CA": 202, "AE": 500, "CE": 500, "AR": 400, "CR": 400}
ANSWER_LIMIT_BYTES: Final = 1_048_576
MOST_AWAITED: Final = 1000
# How long after the first answer over a connection a receiver may take to close it, to be known as one that does.
CLOSING_SECONDS: Final = 0.25
# What of an answer may stand among codes: anything longer may be text, and hold a patient.
_CODE: Final = re.compile(r"[A-Za-z0-9._-]{1,20}")
# The byte that ends a block: a message that has it cannot be sent whole.
END: Final = b"\x1c"


class ApplicationAck(NamedTuple):
    """An application acknowledgement that came after the commit acknowledgement which ended a delivery."""

    entry: int
    code: str
    block: bytes


class _Awaited(NamedTuple):
    """The message whose acknowledgement a connection waits for."""

    control_id: str
    entry: int
    answer: "asyncio.Future[tuple[Ack, bytes]]"


class RelayConnection:
    """One connection to the receiver, read all the time: one message at a time waits for its acknowledgement.

    `observe` is called with each application acknowledgement of a message that was accepted before. `failure`: how the
    connection ended, once it has.
    """

    def __init__(self, connection: MllpConnection, observe: Callable[[ApplicationAck], None]) -> None:
        self._connection = connection
        self._observe = observe
        self._awaited: _Awaited | None = None
        self._accepted: OrderedDict[str, int] = OrderedDict()
        self._answered = False
        self.failure: Exception = ConnectionResetError()
        self._reader = asyncio.ensure_future(self._read())

    @property
    def closed(self) -> bool:
        """Whether nothing can be sent any more."""
        return self._reader.done() or self._connection.closed

    async def ask(self, content: bytes, control_id: str, entry: int, seconds: float) -> tuple[Ack, bytes]:
        """Send a message and return its acknowledgement, and the block in which it came.

        OSError where the connection breaks, TimeoutError where no answer comes within `seconds`, ValueError where one
        comes that cannot be read, CertificateRefusedError where the receiver ends TLS without reading anything.
        """
        awaited = self._awaited = _Awaited(control_id, entry, asyncio.get_running_loop().create_future())
        try:
            async with asyncio.timeout(seconds):
                await self._connection.send(content)
                fault.point("F53")
                return await awaited.answer
        finally:
            self._awaited = None
            awaited.answer.cancel()

    async def ended(self, seconds: float) -> Exception | None:
        """Return how the connection ended within a time; None where it did not."""
        await asyncio.wait((self._reader,), timeout=seconds)
        return self.failure if self._reader.done() else None

    async def close(self) -> None:
        """Close the connection."""
        self._reader.cancel()
        await asyncio.gather(self._reader, return_exceptions=True)
        await self._connection.close()

    async def _read(self) -> None:
        try:
            while True:
                self._take(await self._connection.receive())
        except (NoBlockError, ValueError):
            self.failure = ValueError(UNREADABLE)
        except OSError as error:
            # TLS 1.3 tells a client after its own end of the handshake: before any answer, nobody read the message.
            unread = refuses_certificate(error) and not self._answered
            self.failure = CertificateRefusedError() if unread else error
        except asyncio.IncompleteReadError:
            pass
        finally:
            if self._awaited is not None and not self._awaited.answer.done():
                self._awaited.answer.set_exception(self.failure)

    def _take(self, block: bytes) -> None:
        """Give a block to whom it answers; one that answers nobody here is passed over.

        What the application says of a message that was accepted before ends no later one, whatever its MSA-2 is.
        """
        found = read_acks(block)
        if not found and self._awaited is not None and not self._awaited.answer.done():
            self._awaited.answer.set_exception(ValueError(UNREADABLE))
        for read in found:
            ack = replace(read, code=read.code.strip().upper(), control_id=read.control_id.strip())
            of_application = ack.code not in COMMITS
            if of_application and ack.control_id in self._accepted:
                self._observe(ApplicationAck(self._accepted.pop(ack.control_id), ack.code, block))
            elif not (of_application and self._accepted and not ack.control_id):
                self._answer(ack, block)

    def _answer(self, ack: Ack, block: bytes) -> None:
        """End the wait of the message that an acknowledgement names, or of the one that waits where it names none."""
        awaited = self._awaited
        if awaited is None or awaited.answer.done() or ack.control_id not in {awaited.control_id, ""}:
            return
        self._answered = True
        awaited.answer.set_result((ack, block))
        if ack.code == "CA":
            self._accepted[awaited.control_id] = awaited.entry
            while len(self._accepted) > MOST_AWAITED:
                self._accepted.popitem(last=False)


class RelayDestination:
    """The receiver of one relay, and the connections to it.

    `fence` is awaited before each message is sent; `observe` is called with application acknowledgements that come
    after a delivery has ended, `renewed` with what becomes of the files of our own certificate. StartError names a file
    of TLS that cannot be used.
    """

    def __init__(
        self,
        settings: Relay,
        *,
        ticks: Callable[[], float],
        fence: Fence | None = None,
        observe: Callable[[ApplicationAck], None] = lambda _ack: None,
        renewed: Callable[[str], None] = lambda _kind: None,
    ) -> None:
        self.settings = settings
        self._ticks = ticks
        self._fence = fence
        self._observe = observe
        self._tls = None if settings.tls is None else _contexts(settings.tls, renewed)
        self._idle: list[RelayConnection] = []
        # Whether the receiver closes after each message; None until that is seen, and once a connection has ended.
        self._closes: bool | None = None
        self._unknown_outcomes: OrderedDict[int, None] = OrderedDict()

    @property
    def holds_unknown(self) -> bool:
        """Whether a message of which nobody can tell whether it was taken is held for a person."""
        return self.settings.acknowledgement.on_unknown == "hold"

    def missing(self) -> tuple[str, ...]:
        """Return codes for what cannot be relied on: nothing is known of a receiver."""
        return ()

    def retry_now(self) -> None:
        """Nothing waits here for a next try."""

    async def check(self, patience: float = 0.0) -> None:
        """Open a connection; DeliveryError where that is not possible.

        `patience`: seconds for the receiver to close it: of a certificate it says only then that it does not take it.
        """
        connection = await self._connection()
        self._idle.append(connection)
        if patience and (error := await connection.ended(patience)) is not None:
            reason, failure = _after_sending(error)
            raise error_of(failure, reason, 0, (reason,))

    async def deliver(
        self,
        content: bytes,
        control_id: str,
        journal_intent: Callable[[HttpRequest], Awaitable[None]] | None,
        *,
        at: datetime,
        entry: int,
        attempts_made: int,
        body: bytes = b"",
        ambiguous: bool = False,
    ) -> Verdict:
        """Send a message and return the verdict; errors of the journal pass through.

        `body` is kept of it where it is not what came in. `ambiguous`: an earlier attempt was begun, and how it ended
        is not known. `journal_intent` is awaited before the message is sent; None: what came of it says enough, but at
        a receiver with `on_unknown: hold`.
        """
        if (ambiguous and self.holds_unknown) or END in content:
            return Verdict(VerdictKind.HELD, END_WITHIN if END in content else OUTCOME_UNKNOWN, unasked=True)
        sending = _Sending(HttpRequest(attempts_made + 1, METHOD, self.settings.address, (), body, at), self._ticks)
        if entry in self._unknown_outcomes:
            sending.notes = (SENT_AGAIN,)
        try:
            connection = await self._connection()
            if journal_intent is not None:
                await journal_intent(sending.request)
                sending.journaled = True
            if self._fence is not None:
                await self._fence()
            connection = await self._still_open(connection)
        except DeliveryError as error:
            return sending.verdict(VerdictKind.RETRY, str(error), class_of(error))
        fault.point("F52")
        try:
            ack, block = await connection.ask(content, control_id, entry, self.settings.acknowledgement.wait_seconds)
        except (OSError, ValueError, CertificateRefusedError) as error:
            await connection.close()
            self._closes = None
            reason, failure = _after_sending(error)
            return self._unknown(entry, sending, reason, failure)
        except BaseException:
            await connection.close()
            raise
        fault.point("F54")
        await self._keep(connection)
        sending.answered(ack, block)
        meaning = ON_ERROR[self.settings.acknowledgement.on_error] if ack.code in ERRORS else MEANINGS.get(ack.code)
        if meaning is None:
            return self._unknown(entry, sending, UNREADABLE, Failure.AMBIGUOUS)
        self._unknown_outcomes.pop(entry, None)
        return sending.verdict(*meaning)

    async def close(self) -> None:
        """Close all connections."""
        idle, self._idle = self._idle, []
        await asyncio.gather(*(connection.close() for connection in idle))

    async def _connection(self) -> RelayConnection:
        """Return an idle connection that is open, or a new one; DeliveryError where that is not possible."""
        while self._idle:
            connection = self._idle.pop()
            if not connection.closed:
                return connection
            await connection.close()
            self._closes = None
        to = self.settings
        try:
            opened = await connect(
                to.host,
                to.port,
                seconds=to.connect_seconds,
                limit_bytes=ANSWER_LIMIT_BYTES,
                tls=None if self._tls is None else self._tls(),
                server_name="" if to.tls is None else to.tls.server_name,
            )
        except (OSError, ValueError) as error:
            said = CertificateRefusedError() if refuses_certificate(error) else error
            failure, reason = next((failure, reason) for kind, failure, reason in CONNECTING if isinstance(said, kind))
            raise error_of(failure, reason, 0, (reason,)) from error
        return RelayConnection(opened, self._observe)

    async def _still_open(self, connection: RelayConnection) -> RelayConnection:
        """Return a connection, or a new one where it has ended meanwhile: nothing was sent over it."""
        if not connection.closed:
            return connection
        await connection.close()
        if isinstance(connection.failure, CertificateRefusedError):
            reason, failure = _after_sending(connection.failure)
            raise error_of(failure, reason, 0, (reason,))
        return await self._connection()

    async def _keep(self, connection: RelayConnection) -> None:
        """Keep a connection for the next message, unless the receiver closes after each."""
        if self._closes is None:
            self._closes = await connection.ended(CLOSING_SECONDS) is not None
        if self._closes:
            await connection.close()
        else:
            self._idle.append(connection)

    def _unknown(self, entry: int, sending: "_Sending", reason: str, failure: Failure) -> Verdict:
        """Return the verdict on a message of which nobody can tell whether it was taken."""
        if failure is Failure.AMBIGUOUS:
            self._unknown_outcomes[entry] = None
            if len(self._unknown_outcomes) > MOST_AWAITED:
                self._unknown_outcomes.popitem(last=False)
        if failure is Failure.AMBIGUOUS and self.holds_unknown:
            return sending.verdict(VerdictKind.HELD, OUTCOME_UNKNOWN, Failure.PERMANENT, reason)
        return sending.verdict(VerdictKind.RETRY, reason, failure)


def _contexts(tls: RelayTls, renewed: Callable[[str], None]) -> Callable[[], ssl.SSLContext]:
    """Return what gives the TLS of a new connection; StartError names a file that cannot be used."""
    own = None
    if tls.certificate is not None and tls.key is not None:
        own = KeyPair(Path(tls.certificate), Path(tls.key), ("tls.certificate", "tls.key"))
    return contexts(tls.ca_file, own, renewed)


def _after_sending(error: Exception) -> tuple[str, Failure]:
    """Return the reason and the failure of an error that came once a connection was open."""
    return next((reason, failure) for kind, reason, failure in SENT if isinstance(error, kind))


class _Sending:
    """One attempt, from its request on: how long it took, and what was answered."""

    def __init__(self, request: HttpRequest, ticks: Callable[[], float]) -> None:
        self.request = request
        self.journaled = False
        self.notes: tuple[str, ...] = ()
        self._ticks = ticks
        self._begun = ticks()
        self._status = 0
        self._codes: tuple[str, ...] = ()
        self._block = b""

    def answered(self, ack: Ack, block: bytes) -> None:
        """Note the acknowledgement, and the block in which it came."""
        self._status, self._block = STATUSES.get(ack.code, 0), block
        self._codes = tuple(filter(_CODE.fullmatch, dict.fromkeys((ack.code, *(code for code, _ in ack.errors)))))

    def verdict(self, kind: VerdictKind, reason: str, failure: Failure, *notes: str) -> Verdict:
        """Return the verdict, with this attempt."""
        milliseconds = (self._ticks() - self._begun) * 1000
        attempt = HttpAttempt(
            self.request, self._status, self._codes or (reason,), failure, milliseconds, self._block, self.journaled
        )
        delivered = kind is VerdictKind.DELIVERED
        return Verdict(kind, reason, (*self.notes, *notes), failure, attempts=(attempt,), applied=delivered)
