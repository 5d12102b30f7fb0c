"""Notices: an ADT event is announced by a message Bundle (`$process-message`), once its content was delivered.

The Bundle has a MessageHeader with the trigger event, and the patient and the visit as the server holds them now. Its
identifier is made of the message, so that a server which has it already takes a further request for the same one.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from urllib.parse import quote
from uuid import NAMESPACE_URL, UUID, uuid5

import orjson

from engine import fault
from engine.deliver.reply import Ending, RequestReply, reply_of, unanswered
from engine.deliver.throttling import retry_after_seconds
from engine.deliver.verdict import Failure
from engine.deliver.wire.client import ServerResponse
from engine.deliver.wire.exchange import GONE
from engine.deliver.wire.failure import error_of, failure_of
from engine.deliver.wire.server import MEDIA_TYPE, DestinationServer
from engine.errors import DeliveryError
from engine.fhir.outcome import codes

EVENT: Final = "admin-notify"
UNSUPPORTED: Final = "notice-unsupported"
REFUSED: Final = "notice-refused"
FAILED: Final = "notice-failed"
NOBODY: Final = "notice-nobody"
# How a server says that it has no such operation.
NOT_OFFERED: Final = frozenset({404, 405, 501})
NOT_SUPPORTED: Final = "not-supported"
EVENTS: Final = "http://terminology.hl7.org/CodeSystem/message-events"
TRIGGERS: Final = "http://terminology.hl7.org/CodeSystem/v2-0003"
URI: Final = "urn:ietf:rfc:3986"
OURS: Final = "urn:adt-engine:"
HEADERS: Final = (("Content-Type", MEDIA_TYPE),)

Body = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Notice:
    """The event that a server hears of: a message of a channel with that digest, of a trigger event, received then.

    `patient` and `visit` are records of the server (`Patient/1`); `visit` is empty where the message is about none.
    """

    channel: str
    digest: bytes
    event: str
    received_at: datetime
    patient: str
    visit: str = ""

    @property
    def identifier(self) -> UUID:
        """The identity of the notice: the same for the same message on the same channel, at any time."""
        return uuid5(NAMESPACE_URL, f"{OURS}{self.channel}:{self.digest.hex()}")


class NoticeClient:
    """Tells one server; `unsupported` once it has said that it takes no notices, until it takes one."""

    def __init__(self, server: DestinationServer) -> None:
        self._server = server
        self.unsupported = False

    async def tell(self, notice: Notice, at: datetime) -> RequestReply:
        """Tell the server of an event and return what it said; nothing is raised.

        A patient whom the server does not have any more is nobody to tell of; a visit that is gone, or is another
        patient's by now, is left out.
        """
        try:
            patient = await self._read(notice.patient, at)
            if patient is None:
                return RequestReply(Ending.GIVEN_UP, NOBODY)
            visit = await self._read(notice.visit, at) if notice.visit else None
            resources = [patient, visit] if visit is not None and _is_of(visit, notice.patient) else [patient]
            body = orjson.dumps(message(notice, self._server.base, resources, self._server.settings.fhir))
            fault.point("F47")
            answer = await self._server.ask("POST", f"{self._server.base}/$process-message", HEADERS, body)
        except DeliveryError as error:
            return unanswered(error, FAILED)
        reply = _reply(answer, at)
        if reply.ending is not Ending.RETRY:
            self.unsupported = reply.reason == UNSUPPORTED
        return reply

    async def _read(self, reference: str, at: datetime) -> Body | None:
        """Return a record as the server holds it, None where it is gone; DeliveryError where nobody knows."""
        type_, _, logical_id = reference.partition("/")
        answer = await self._server.ask("GET", f"{self._server.base}/{type_}/{quote(logical_id, safe='')}", ())
        if answer.status in GONE:
            return None
        failure = failure_of(answer.status, write=False)
        if failure is not Failure.NONE:
            wait = retry_after_seconds(answer.headers.get("retry-after", ""), at)
            raise error_of(failure, f"http-{answer.status}", answer.status, codes(answer.json), wait)
        body = answer.json
        if not isinstance(body, dict) or body.get("resourceType") != type_ or not isinstance(body.get("id"), str):
            raise error_of(Failure.TRANSIENT, "answer-unreadable", answer.status, ("answer-unreadable",))
        return body


def message(notice: Notice, base: str, resources: list[Body], fhir: str) -> Body:
    """Return the message Bundle of a notice in a FHIR version; `resources` are the patient and, it may be, the visit.

    References are relative to the entries' `fullUrl`, all of which begin with `base`. In STU3 the time is in the
    header, as Bundle has no element for it.
    """
    event, time = {"system": EVENTS, "code": EVENT}, notice.received_at.isoformat(timespec="milliseconds")
    header: Body = {
        "resourceType": "MessageHeader",
        "id": str(uuid5(notice.identifier, "MessageHeader")),
        **({"event": event, "timestamp": time} if fhir == "STU3" else {"eventCoding": event}),
        "source": {"name": "adt-engine", "endpoint": f"{OURS}{notice.channel}"},
        "reason": {"coding": [{"system": TRIGGERS, "code": notice.event}]},
        "focus": [{"reference": _place(resource)} for resource in resources],
    }
    return {
        "resourceType": "Bundle",
        "identifier": {"system": URI, "value": notice.identifier.urn},
        "type": "message",
        **({} if fhir == "STU3" else {"timestamp": time}),
        "entry": [{"fullUrl": f"{base}/{_place(one)}", "resource": one} for one in (header, *resources)],
    }


def _is_of(visit: Body, patient: str) -> bool:
    subject = visit.get("subject")
    reference = subject.get("reference") if isinstance(subject, dict) else None
    return isinstance(reference, str) and f"/{reference}".endswith(f"/{patient}")


def _place(resource: Body) -> str:
    return f"{resource['resourceType']}/{resource['id']}"


def _reply(answer: ServerResponse, at: datetime) -> RequestReply:
    reply = reply_of(answer, at, refused=REFUSED, failed=FAILED)
    offered = answer.status not in NOT_OFFERED and NOT_SUPPORTED not in reply.codes
    if reply.ending is Ending.REFUSED and not offered:
        return RequestReply(Ending.REFUSED, UNSUPPORTED, reply.codes)
    return reply
