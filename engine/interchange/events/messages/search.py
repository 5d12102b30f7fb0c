"""Bundle read and search: the messages of ADT events, for tokens that may read all of a tenant."""

import asyncio
from functools import partial
from typing import Final

from engine.fhir.primitives import ID
from engine.interchange.core.exchange import FhirRequest, HttpAnswer, Interaction, InteractionLevel, RequiredAccess
from engine.interchange.core.service import Service
from engine.interchange.events.messages.message import ADMIN_NOTIFY, BUNDLE
from engine.interchange.kernel.outcome import Category, refuse, unsupported
from engine.interchange.kernel.view import to_version
from engine.interchange.store.message import MessageQuery, find_message, find_messages
from engine.interchange.store.references import local_target, relative
from engine.interchange.store.search.bundle import address_with, page_pairs, write_searchset
from engine.interchange.store.search.criterion import ParameterKind
from engine.interchange.store.search.page import FORMAT, Paging, ResultPage, take_page
from engine.interchange.tokens.oauth.role import RoleRule

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
    resources = [(f"{address}/{one.id}", to_version(one.body, BUNDLE, request.version)) for one in messages]
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
