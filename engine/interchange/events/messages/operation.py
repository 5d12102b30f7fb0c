"""$process-message: accepts an ADT event once, stores it, and queues it for its subscribers."""

from functools import partial
from typing import Final

from engine.fhir.schema import FhirVersion
from engine.interchange.core.exchange import FhirRequest, HttpAnswer, Interaction, InteractionLevel, RequiredAccess
from engine.interchange.core.service import Service
from engine.interchange.events.alerts.event_patient import (
    CLINICAL_ALERT,
    alert,
    enrolled,
    find_visit,
    is_of,
    living,
    with_visit,
)
from engine.interchange.events.messages.search import BUNDLE, MessageNotice, message_of, read_notice, response_to
from engine.interchange.kernel.exact import write_json
from engine.interchange.kernel.outcome import Category, refuse
from engine.interchange.kernel.view import to_version
from engine.interchange.rest import subscription_criteria
from engine.interchange.store.message import MessageRow, add_message, forget_messages, is_known
from engine.interchange.store.notification import NotificationEvent, announce
from engine.interchange.store.transaction import Follower, StoredVersion, Transaction
from engine.interchange.tokens.role import RoleRule

CODE: Final = "process-message"
NOTIFIED: Final = "adt-notify"
# Events that raise an alert: admitted, discharged, registered.
ALERTED: Final = frozenset({"A01", "A03", "A04"})


async def process(service: Service, request: FhirRequest) -> HttpAnswer:
    """Answer POST /$process-message: 200 with the response message; a repeated message changes nothing.

    RefusedError: 400 for no message, 422 for an event other than admin-notify, and for an unknown patient.
    """
    notice = read_notice(request.body, request.version)
    tenant = request.principal.tenant
    await service.store.write(tenant, partial(_take, service, tenant, notice))
    response = response_to(notice, service.new_id(), request.base, service.clock())
    return HttpAnswer(200, to_version(write_json(response), BUNDLE, request.version))


def _take(service: Service, tenant: str, notice: MessageNotice, transaction: Transaction) -> None:
    if is_known(transaction, notice.given):
        return
    patient = _patient(transaction, notice.patient)
    visit = _visit(transaction, notice.encounter, patient)
    settings, message_id = service.tenant(tenant), service.new_id()
    body = b""
    if enrolled(transaction, settings.adt.enrollment, patient.id):
        body = message_of(notice, message_id, service.base(FhirVersion.R4), patient, visit, transaction.at)
        announce(transaction, subscription_criteria.ADMIN_NOTIFY, NotificationEvent(NOTIFIED, body))
    add_message(transaction, MessageRow(message_id, notice.given, notice.event, patient.id, body))
    alerts = settings.clinical_alerts
    if alerts.enabled and notice.event in ALERTED and enrolled(transaction, alerts.enrollment, patient.id):
        event = {"name": "event", "valueCode": notice.event}
        alert(transaction, CLINICAL_ALERT, patient.id, event, *with_visit(visit))


def _patient(transaction: Transaction, patient_id: str) -> StoredVersion:
    """Return the patient of a message, the survivor after a merge; RefusedError (422) for an unknown one."""
    patient = living(transaction, patient_id)
    if patient is None:
        text = "The patient of the message is not stored here. Create the Patient, then send the message again."
        raise refuse(Category.UNRESOLVED, text, location="Bundle.entry.resource.id")
    return patient


def _visit(transaction: Transaction, encounter_id: str, patient: StoredVersion) -> StoredVersion | None:
    """Return the visit of a message, None without one; RefusedError (422) for another patient's visit."""
    visit = find_visit(transaction, encounter_id)
    if visit is not None and not is_of(visit, patient):
        text = "The visit of the message is another patient's."
        raise refuse(Category.RULE, text, location="Bundle.entry.resource.subject")
    return visit


def _patient_gone(transaction: Transaction, before: dict[str, str] | None, after: dict[str, str] | None) -> None:
    """Delete the messages about a deleted patient."""
    if before is not None and after is None:
        forget_messages(transaction, before["id"])


FOLLOWERS: Final[dict[str, Follower]] = {"Patient": _patient_gone}
INTERACTION: Final = Interaction(
    BUNDLE,
    CODE,
    InteractionLevel.SYSTEM,
    "POST",
    RequiredAccess.WRITE,
    RoleRule.CLINICAL,
    process,
    operation=f"${CODE}",
    tenant_wide=True,
)
