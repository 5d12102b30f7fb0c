"""RequestResult/{id}, the handle of a job: its progress, its result, and its cancellation."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from engine.fhir.versions.names import r4_name
from engine.interchange.core.exchange import FhirRequest, HttpAnswer, Interaction, InteractionLevel, RequiredAccess
from engine.interchange.core.service import Service
from engine.interchange.jobs.asking import ENDED, RETRY_SECONDS, ended_answer
from engine.interchange.jobs.job import kept_since
from engine.interchange.kernel.outcome import Category, RefusedError, refuse
from engine.interchange.rest.access import authorise, check_plain, needed
from engine.interchange.rest.resource.catalogue import KEPT
from engine.interchange.rest.resource.context import restrict_patient_id
from engine.interchange.store.job import JobState, StoredJob, cancel, find_job, patient_of_job
from engine.interchange.store.transaction import Transaction
from engine.interchange.tokens.role import RoleRule, may_see

NAME: Final = "RequestResult"
LONGEST_PROGRESS: Final = 99
RESOURCE: Final = re.compile(rb'\{"resourceType":"([A-Za-z]+)"')
WORDS: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")

Operations = Mapping[str, tuple[Interaction, ...]]


def interactions(operations: Iterable[Interaction]) -> tuple[Interaction, ...]:
    """Return the interactions with the handles of jobs; a job's kind is the `code` or `Type.code` of an operation.

    A token that may carry out the operation with the job's patient may read and cancel the job.
    """
    by_code: dict[str, tuple[Interaction, ...]] = defaultdict(tuple)
    for operation in operations:
        by_code[operation.code] += (operation,)
        by_code[f"{operation.type}.{operation.code}"] += (operation,)

    async def read(service: Service, request: FhirRequest) -> HttpAnswer:
        """Answer GET /RequestResult/{id}: 202 until the job has ended, then its result or its issues."""
        check_plain(list(request.query))
        kept = service.store.read(request.principal.tenant, partial(_find, service, request))
        _demand(service, request, by_code, kept)
        return _visible(service, request, kept)

    async def delete(service: Service, request: FhirRequest) -> HttpAnswer:
        """Answer DELETE /RequestResult/{id}: 202, and the job is cancelled."""
        check_plain(list(request.query))

        def work(transaction: Transaction) -> StoredJob:
            kept = _find(service, request, transaction)
            cancel(transaction.connection, kept, transaction.at)
            return kept

        tenant = request.principal.tenant
        _demand(service, request, by_code, service.store.read(tenant, partial(_find, service, request)))
        kept = await service.store.write(tenant, work)
        if kept.state is JobState.WAITING:
            # A running job is counted by its runner, once it has stopped.
            service.job_signals.ended(kept.job.kind, JobState.CANCELLED, 0)
        service.job_signals.wakeup.set()
        return HttpAnswer(202)

    return tuple(
        Interaction(NAME, code, InteractionLevel.INSTANCE, method, access, RoleRule.PATIENT, run, own_rights=True)
        for code, method, access, run in (
            ("read", "GET", RequiredAccess.READ, read),
            ("delete", "DELETE", RequiredAccess.WRITE, delete),
        )
    )


def patient_of(service: Service, request: FhirRequest) -> tuple[str, ...]:
    """Return the patient of a job, for the access log; () for a job without one, and for no job."""
    patient = service.store.read(request.principal.tenant, lambda transaction: patient_of_job(transaction, request.id))
    return (patient,) if patient else ()


def _find(service: Service, request: FhirRequest, transaction: Transaction) -> StoredJob:
    """Return the job of a handle; RefusedError (404) if there is none at this base, or no longer."""
    kept = find_job(transaction, request.id)
    if (
        kept is None
        or kept.job.version is not request.version
        or kept.state is JobState.CANCELLED
        or (kept.ended_ms is not None and kept.ended_ms < kept_since(service.clock()))
    ):
        raise refuse(Category.NOT_FOUND, f"{NAME}/{request.id[:64]} does not exist, or no longer.", location="http.id")
    return kept


def _demand(service: Service, request: FhirRequest, operations: Operations, kept: StoredJob) -> None:
    """RefusedError (403) unless the token may carry out the operation, in one of the ways in which it is offered."""
    refusal = refuse(Category.NOT_FOUND, "The operation of this handle is no longer offered.", location="http.id")
    for one in operations.get(kept.job.kind, ()):
        try:
            authorise(service, request.principal, one)
            restrict_patient_id(service, request.principal, kept.job.patient, one, needed(one))
        except RefusedError as error:
            refusal = error
        else:
            return
    raise refusal


def _answer(kept: StoredJob) -> HttpAnswer:
    if kept.state in ENDED:
        return ended_answer(kept)
    return HttpAnswer(202, b"", (("x-progress", progress_text(kept)), ("retry-after", str(RETRY_SECONDS))))


def _visible(service: Service, request: FhirRequest, kept: StoredJob) -> HttpAnswer:
    """Return the answer, without the written resource if the token may not read its type."""
    answer = _answer(kept)
    match = RESOURCE.match(answer.body)
    name = r4_name(match[1].decode()) if match else ""
    own = bool(kept.job.patient) and kept.job.patient == request.principal.patient
    if name not in KEPT or may_see(service.configuration, request.principal, name, own=own):
        return answer
    return replace(answer, body=b"")


def progress_text(kept: StoredJob) -> str:
    """Return the progress of a job as a text of less than 100 characters (FHIR, X-Progress)."""
    if kept.state is JobState.WAITING:
        return "waiting"
    text = "in progress"
    for number, (name, value) in enumerate(kept.progress.items()):
        more = f"{text}{', ' if number else ': '}{WORDS.sub(' ', name).lower()} {value}"
        if len(more) > LONGEST_PROGRESS:
            break
        text = more
    # A work may report any text; a header holds printable ASCII.
    return "".join(character for character in text if character.isascii() and character.isprintable())
