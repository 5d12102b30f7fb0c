"""Messages of ADT events (`admin-notify`): what is accepted, sent and kept; Bundle read and search."""

import asyncio
import re
from datetime import datetime
from functools import partial
from typing import Final, NamedTuple

from engine.fhir.json import JsonObject
from engine.fhir.primitives import ID
from engine.fhir.schema import FhirVersion
from engine.interchange.core.exchange import FhirRequest, HttpAnswer, Interaction, InteractionLevel, RequiredAccess
from engine.interchange.core.service import Service
from engine.interchange.kernel.exact import write_json
from engine.interchange.kernel.outcome import Category, RefusedError, refuse, unsupported
from engine.interchange.kernel.view import TIMESTAMP, to_version, tolerated
from engine.interchange.rest.resource.rules import check_shape, issues
from engine.interchange.store.message import MessageQuery, find_message, find_messages
from engine.interchange.store.references import local_target, relative
from engine.interchange.store.search.bundle import address_with, page_pairs, write_searchset
from engine.interchange.store.search.criterion import ParameterKind
from engine.interchange.store.search.page import FORMAT, Paging, ResultPage, take_page
from engine.interchange.store.transaction import StoredVersion
from engine.interchange.tokens.role import RoleRule

ADMIN_NOTIFY: Final = "admin-notify"
MESSAGE_EVENTS: Final = "http://terminology.hl7.org/CodeSystem/message-events"
# Table 0003 of HL7 v2, as R4 and as STU3 call it.
TRIGGERS: Final = ("http://terminology.hl7.org/CodeSystem/v2-0003", "http://hl7.org/fhir/v2/0003")
TRIGGER: Final = re.compile(r"A[0-9]{2}")
BUNDLE: Final = "Bundle"
HEADER: Final = "MessageHeader"
PEOPLE: Final = ("Patient", "Encounter")
NAME: Final = "Clinical Data Interchange Service"
LONGEST: Final = 400


class MessageNotice(NamedTuple):
    """The content of an incoming message; `event` is such as A01, `encounter` is '' for none."""

    given: str
    header: str
    event: str
    patient: str
    encounter: str
    timestamp: str


def read_notice(body: JsonObject, version: FhirVersion) -> MessageNotice:
    """Read an incoming message; RefusedError 400 for no message, 422 for another event, or without a patient."""
    missing, wrong = check_shape(tolerated(body, version), BUNDLE, version)
    if missing:
        raise RefusedError(Category.REQUIRED, issues(missing))
    if wrong is not None:
        raise wrong
    held = [entry["resource"] for entry in body.get("entry", ()) if "resource" in entry]
    if body.get("type") != "message" or not held or held[0]["resourceType"] != HEADER:
        text = "Send a Bundle of type message, whose first entry is a MessageHeader."
        raise refuse(Category.BAD_VALUE, text, location="Bundle.type")
    header = held[0]
    if header.get("eventCoding", header.get("event", {})).get("code") != ADMIN_NOTIFY:
        text = f"The only event that is processed is {ADMIN_NOTIFY}."
        raise refuse(Category.NOT_OFFERED, text, location=f"{HEADER}.event[x]")
    patients, visits = ([one.get("id", "") for one in held if one["resourceType"] == name] for name in PEOPLE)
    if len(patients) != 1 or len(visits) > 1:
        text = "A message is of one event: it has an entry with the Patient, and at most one with an Encounter."
        raise refuse(Category.INCOMPLETE, text, location="Bundle.entry")
    moment = body.get(TIMESTAMP) or header.get(TIMESTAMP, "")
    return MessageNotice(_given(body), header.get("id", ""), _trigger(header), patients[0], "".join(visits), moment)


def message_of(
    notice: MessageNotice, message_id: str, base: str, patient: StoredVersion, visit: StoredVersion | None, at: datetime
) -> bytes:
    """Return the message for subscribers, in R4: header, and the stored patient and visit."""
    held = [patient, *([visit] if visit is not None else [])]
    header = {
        "resourceType": HEADER,
        "id": message_id,
        "eventCoding": {"system": MESSAGE_EVENTS, "code": ADMIN_NOTIFY},
        "source": {"name": NAME, "endpoint": base},
        "reason": {"coding": [{"system": TRIGGERS[0], "code": notice.event}]},
        "focus": [{"reference": f"{one.type}/{one.id}"} for one in held],
    }
    system, _, value = notice.given.partition("|")
    bundle = {
        "resourceType": BUNDLE,
        "id": message_id,
        "meta": {"versionId": "1", "lastUpdated": _instant(at)},
        "identifier": {**({"system": system} if system else {}), "value": value},
        "type": "message",
        TIMESTAMP: notice.timestamp or _instant(at),
        "entry": [
            {"fullUrl": f"{base}/{HEADER}/{message_id}", "resource": header},
            *({"fullUrl": f"{base}/{one.type}/{one.id}", "resource": one.resource()} for one in held),
        ],
    }
    return write_json(bundle)


def response_to(notice: MessageNotice, message_id: str, base: str, at: datetime) -> JsonObject:
    """Return the response message, in R4."""
    header = {
        "resourceType": HEADER,
        "id": message_id,
        "eventCoding": {"system": MESSAGE_EVENTS, "code": ADMIN_NOTIFY},
        "source": {"name": NAME, "endpoint": base},
        "response": {"identifier": notice.header or message_id, "code": "ok"},
    }
    return {
        "resourceType": BUNDLE,
        "id": message_id,
        "type": "message",
        TIMESTAMP: _instant(at),
        "entry": [{"fullUrl": f"{base}/{HEADER}/{message_id}", "resource": header}],
    }


def _instant(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds")


def _given(body: JsonObject) -> str:
    """Return the identifier of a message, by which a repeat is recognised; RefusedError (400) for none."""
    given = body.get("identifier", {})
    token = f"{given.get('system', '')}|{given['value']}" if given.get("value") else ""
    if not 0 < len(token) <= LONGEST:
        text = f"A message has an identifier of at most {LONGEST} characters, the same each time that it is sent."
        raise refuse(Category.REQUIRED, text, location="Bundle.identifier")
    return token


def _trigger(header: JsonObject) -> str:
    """Return the HL7 v2 event of a message; RefusedError (422) unless there is exactly one."""
    codings = header.get("reason", {}).get("coding", ())
    codes = [coding.get("code", "") for coding in codings if coding.get("system") in TRIGGERS]
    if len(codes) != 1 or not TRIGGER.fullmatch(codes[0]):
        text = f"The reason of a message is one event of {TRIGGERS[0]}, such as A01."
        raise refuse(Category.INCOMPLETE, text, location=f"{HEADER}.reason")
    return str(codes[0])


EVENT: Final = "message.event"
PATIENT: Final = "patient"
# The search parameters; `message.event` also takes HL7 v2 events (A01).
PARAMETERS: Final = {"_id": ParameterKind.ID, EVENT: ParameterKind.TOKEN, PATIENT: ParameterKind.REFERENCE}
PAGING: Final = Paging()


async def read(service: Service, request: FhirRequest) -> HttpAnswer:
    """Answer GET /Bundle/{id}: a message; 404 for none."""
    message = service.store.read(request.principal.tenant, partial(find_message, message_id=request.id))
    if message is None:
        raise refuse(Category.NOT_FOUND, "There is no message of this id.", location="http.id")
    return HttpAnswer(200, to_version(message, BUNDLE, request.version), (("etag", 'W/"1"'),))


async def search(service: Service, request: FhirRequest) -> HttpAnswer:
    """Answer GET /Bundle: a searchset Bundle of messages, oldest first."""
    page, criteria = take_page(request.query, PAGING)
    unknown = next((name for name, _ in (*page.form, *criteria) if name not in FORMAT | PARAMETERS.keys()), None)
    if unknown is not None:
        raise unsupported(unknown, f": messages are searched by {', '.join(PARAMETERS)}")
    given = dict(criteria)
    if len(given) != len(criteria):
        raise refuse(Category.BAD_VALUE, "Give each parameter once.", location="http.query")
    named = given.get(PATIENT, "")
    patient_id = local_target(relative(named, service.configuration.base_url) or named).removeprefix("Patient/")
    if PATIENT in given and ID.fullmatch(patient_id) is None:
        raise refuse(Category.BAD_VALUE, "The value of patient names no Patient.", location="http.patient")
    if "_id" in given and ID.fullmatch(given["_id"]) is None:
        raise refuse(Category.BAD_VALUE, "The value of _id is no id of a message.", location="http._id")
    query = MessageQuery(given.get("_id", ""), _events(given), patient_id)
    find = partial(find_messages, asked=query, most=page.count, offset=page.offset)
    total, messages = await asyncio.to_thread(service.store.read, request.principal.tenant, find)
    address = f"{request.base}/{BUNDLE}"
    links = [("self", address_with(address, page_pairs(criteria, page)))]
    if messages and page.offset + len(messages) < total:
        following = ResultPage(page.count, page.offset + len(messages), form=page.form)
        links.append(("next", address_with(address, page_pairs(criteria, following))))
    resources = [(f"{address}/{message.id}", to_version(message.body, BUNDLE, request.version)) for message in messages]
    return HttpAnswer(200, write_searchset(service.new_id(), links, total, resources))


def _events(given: dict[str, str]) -> tuple[str, ...]:
    """Return the HL7 v2 events of a search; empty for all."""
    if EVENT not in given:
        return ()
    codes = tuple(one.rpartition("|")[2] for one in given[EVENT].split(","))
    return () if ADMIN_NOTIFY in codes else codes


INTERACTIONS: Final = tuple(
    Interaction(BUNDLE, code, level, "GET", RequiredAccess.READ, RoleRule.CHART, run, tenant_wide=True)
    for code, level, run in (("read", InteractionLevel.INSTANCE, read), ("search-type", InteractionLevel.TYPE, search))
)
