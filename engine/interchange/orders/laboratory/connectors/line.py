"""A laboratory at the other end of an MLLP line: a connection for each order, its acknowledgement awaited and read.

Until the first byte of an order is written, whatever goes wrong is UNREACHABLE; from then on it is UNKNOWN, unless the
laboratory says so by an acknowledgement of this very message.
"""

import asyncio
import ssl
from collections.abc import Mapping
from datetime import datetime
from typing import Final, NamedTuple

from engine import fault
from engine.config.laboratory import LaboratoryConnector
from engine.errors import MessageLimitError, UndecodableMessageError, UnreadableMessageError
from engine.hl7.message import Message, parse
from engine.hl7.segment import Segment
from engine.http.tls import client_context
from engine.interchange.kernel.outbound import Outbound
from engine.interchange.orders.laboratory.connectors.connector import CANNOT_BE_ASKED, SendVerdict, stay
from engine.interchange.orders.laboratory.message.build import Envelope, write_order
from engine.interchange.orders.laboratory.message.datatypes import UnwritableError
from engine.interchange.orders.laboratory.order import LaboratoryOrder
from engine.interchange.store.transmission import TransmissionOutcome
from engine.mllp.client import MllpConnection, NoBlockError, connect

# Table 0008.
TAKEN: Final = frozenset({"AA", "CA"})
NOT_TAKEN: Final = frozenset({"AE", "AR", "CE", "CR"})
LONGEST_TEXT: Final = 200
LONGEST_CODE: Final = 12


class Acknowledgement(NamedTuple):
    """MSA-1, and what it means for the order."""

    code: str
    verdict: SendVerdict


def read_acknowledgement(block: bytes, control_id: str) -> Acknowledgement:
    """Return what a block answers to the message of a control id; UNKNOWN where it answers another one, or nothing."""
    try:
        message = parse(block, undecodable="replace", max_segments=1000, max_repetitions=1000)
    except (UnreadableMessageError, UndecodableMessageError, MessageLimitError):
        return Acknowledgement(
            "", SendVerdict(TransmissionOutcome.UNKNOWN, "no-acknowledgement", "the answer is no HL7 message")
        )
    code, answered = _leaf(message, "MSA", 1), _leaf(message, "MSA", 2)
    if message.first("MSA") is None:
        return Acknowledgement(
            "", SendVerdict(TransmissionOutcome.UNKNOWN, "no-acknowledgement", "the answer has no MSA")
        )
    if answered != control_id:
        return Acknowledgement(
            "", SendVerdict(TransmissionOutcome.UNKNOWN, "wrong-id", "the answer is to another message (MSA-2)")
        )
    if code in TAKEN:
        return Acknowledgement(code, SendVerdict(TransmissionOutcome.ACCEPTED, code))
    if code not in NOT_TAKEN:
        return Acknowledgement(
            "", SendVerdict(TransmissionOutcome.UNKNOWN, "no-code", "the answer has no code of table 0008 (MSA-1)")
        )
    errors = [_error(one) for one in message.named("ERR")]
    number = next((found for found, _ in errors if found), "")
    texts = [text for _, text in errors if text] or [_leaf(message, "MSA", 3)]
    reason = " ".join(" ".join(filter(None, texts)).split())[:LONGEST_TEXT]
    return Acknowledgement(code, SendVerdict(TransmissionOutcome.REFUSED, f"{code} {number}".strip(), reason))


def _error(segment: Segment) -> tuple[str, str]:
    """Return code and text of an ERR as it is since 2.5 (ERR-3, 7, 8), or as it was before (ERR-1.4)."""
    number, text = segment.leaf(3), segment.leaf(8) or segment.leaf(7) or segment.leaf(3, 2)
    if not number:
        number, text = segment.leaf(1, 4), segment.leaf(1, 4, 2)
    # A code is a few letters and digits; other content may be patient data.
    known = number if isinstance(number, str) and number.isalnum() and len(number) <= LONGEST_CODE else ""
    return known, text if isinstance(text, str) else ""


def _leaf(message: Message, segment: str, field: int) -> str:
    found = message.leaf(segment, field)
    return found if isinstance(found, str) else ""


REPLY_LIMIT_BYTES: Final = 1_048_576
# A proxy in front of a laboratory that is down takes a connection, and closes it at once.
SETTLE_SECONDS: Final = 0.005
# In TLS 1.3 a server says only after the handshake that it does not take the client's certificate, and then has read
# nothing else.
NOT_TRUSTED: Final = frozenset(
    {
        *("TLSV13_ALERT_CERTIFICATE_REQUIRED", "TLSV1_ALERT_UNKNOWN_CA", "TLSV1_ALERT_ACCESS_DENIED"),
        *("SSLV3_ALERT_BAD_CERTIFICATE", "SSLV3_ALERT_CERTIFICATE_EXPIRED", "SSLV3_ALERT_CERTIFICATE_REVOKED"),
        *("SSLV3_ALERT_CERTIFICATE_UNKNOWN", "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE", "SSLV3_ALERT_HANDSHAKE_FAILURE"),
    }
)
ACCEPTED_AT_FIRST: Final = "CA"


# What it means that no answer came, the first that fits.
SILENCES: Final[Mapping[type[Exception], SendVerdict]] = {
    TimeoutError: SendVerdict(TransmissionOutcome.UNKNOWN, "no-answer", "no answer came in time (timeout_s)"),
    OSError: SendVerdict(TransmissionOutcome.UNKNOWN, "broken-off", "the line broke before an answer came"),
    asyncio.IncompleteReadError: SendVerdict(
        TransmissionOutcome.UNKNOWN, "broken-off", "the line was closed before an answer came"
    ),
    NoBlockError: SendVerdict(TransmissionOutcome.UNKNOWN, "no-block", "the answer is no MLLP block"),
    ValueError: SendVerdict(TransmissionOutcome.UNKNOWN, "no-block", "the answer is longer than a megabyte"),
}


class LaboratoryUnreachableError(Exception):
    """There is no connection to a laboratory; the text says why."""


class MllpConnector:
    """The connector of type `hl7`."""

    def __init__(self, settings: LaboratoryConnector, processing_id: str, at: datetime, outbound: Outbound) -> None:
        self._settings = settings
        self._processing_id = processing_id
        self._at = at
        self._outbound = outbound

    async def ask(self, _control_id: str) -> SendVerdict:
        """Say that nobody can be asked: HL7 v2 has no question that laboratories answer."""
        return CANNOT_BE_ASKED

    async def transmit(self, order: LaboratoryOrder, control_id: str) -> SendVerdict:
        """Send an order, and return what the laboratory says to it."""
        try:
            message = write_order(order, self._settings, Envelope(control_id, self._at, self._processing_id))
            connection = await self._connected()
        except UnwritableError as error:
            return SendVerdict(TransmissionOutcome.REFUSED, "unwritable", str(error))
        except LaboratoryUnreachableError as error:
            return SendVerdict(TransmissionOutcome.UNREACHABLE, "unreachable", str(error))
        except asyncio.CancelledError:
            stay()
            return SendVerdict(
                TransmissionOutcome.UNREACHABLE, "stopped", "the service was stopped before there was a connection"
            )
        try:
            return await self._handed_over(connection, message, control_id)
        finally:
            await connection.close()

    async def _connected(self) -> MllpConnection:
        settings = self._settings
        where = f"{settings.host}:{settings.port}"
        try:
            context = await asyncio.to_thread(_trusted, settings) if settings.tls else None
        except (OSError, ssl.SSLError) as error:
            raise LaboratoryUnreachableError("its TLS files cannot be used: interchange check says why") from error
        self._outbound.connections += 1
        try:
            connection = await connect(
                settings.host or "",
                settings.port or 0,
                seconds=settings.timeout_s,
                limit_bytes=REPLY_LIMIT_BYTES,
                tls=context,
            )
        except ssl.SSLError as error:
            raise LaboratoryUnreachableError(f"{where} is not trusted, or speaks no TLS ({_named(error)})") from error
        except TimeoutError as error:
            raise LaboratoryUnreachableError(f"{where} takes no connection within {settings.timeout_s:g} s") from error
        except OSError as error:
            raise LaboratoryUnreachableError(
                f"{where} cannot be reached ({error.strerror or type(error).__name__})"
            ) from error
        await asyncio.sleep(SETTLE_SECONDS)
        if connection.closed:
            await connection.close()
            raise LaboratoryUnreachableError(f"{where} closed the connection at once")
        return connection

    async def _handed_over(self, connection: MllpConnection, message: bytes, control_id: str) -> SendVerdict:
        try:
            async with asyncio.timeout(self._settings.timeout_s):
                await connection.send(message)
                fault.point("F40")
                answer = await _answer(connection, control_id)
                if answer.code == ACCEPTED_AT_FIRST and self._settings.acknowledgement == "application":
                    answer = await _answer(connection, control_id)
        except asyncio.CancelledError:
            stay()
            return SendVerdict(TransmissionOutcome.UNKNOWN, "stopped", "the service was stopped before an answer came")
        except tuple(SILENCES) as error:
            if isinstance(error, ssl.SSLError) and error.reason in NOT_TRUSTED:
                return SendVerdict(
                    TransmissionOutcome.UNREACHABLE, "not-trusted", f"our certificate is not taken ({error.reason})"
                )
            return next(verdict for kind, verdict in SILENCES.items() if isinstance(error, kind))
        return answer.verdict


async def _answer(connection: MllpConnection, control_id: str) -> Acknowledgement:
    return read_acknowledgement(await connection.receive(), control_id)


def _trusted(settings: LaboratoryConnector) -> ssl.SSLContext:
    return client_context(settings.ca_file, certificate=settings.certificate, key=settings.key)


def _named(error: ssl.SSLError) -> str:
    return error.reason or type(error).__name__
