"""POST to a base: a Bundle of requests, as batch or as transaction."""

import asyncio

from engine.interchange.core.exchange import HttpAnswer, RequiredAccess
from engine.interchange.core.service import Service
from engine.interchange.kernel.exact import write_json
from engine.interchange.kernel.outcome import RefusedError, outcome
from engine.interchange.store.access import PENDING, Pending
from engine.interchange.web.bundles.plan import BundleSender, EntryLog, carried_out, phase_of, planned, routed
from engine.interchange.web.bundles.step import BundleKind, BundleStep, write_answers
from engine.interchange.web.bundles.transaction import carry_out


async def answer_bundle(
    service: Service, sender: BundleSender, kind: BundleKind, steps: tuple[BundleStep, ...], log: EntryLog
) -> HttpAnswer:
    """Return the answer: 200 with a Bundle; RefusedError for a transaction that is refused."""
    answers: dict[int, HttpAnswer] = {}
    if kind is BundleKind.TRANSACTION:
        try:
            plans = tuple(planned(service, sender, step) for step in steps)
            answers = await carry_out(service, sender, plans, log)
        except RefusedError as refusal:
            await asyncio.to_thread(log.refuse, steps, refusal)
            raise
    left = [step for step in steps if step.number not in answers]
    for step in sorted(left, key=lambda one: phase_of(one.method)):
        answers[step.number] = await _alone(service, sender, step, log)
    answered = [(step, answers[step.number]) for step in steps]
    return HttpAnswer(200, write_answers(service.new_id(), kind, sender.base, answered))


async def _alone(service: Service, sender: BundleSender, step: BundleStep, log: EntryLog) -> HttpAnswer:
    """Carry out one step of a batch; a refusal is its answer. The row of a write is in the commit of the write."""
    PENDING.set(None)
    try:
        interaction, resource_id, *_ = routed(service, sender, step)
    except RefusedError as refusal:
        # A request without a route accesses nothing: no row.
        return _outcome_of(service, sender, refusal)
    pending = None
    if interaction.access is RequiredAccess.WRITE:
        pending = Pending(log.row(step, interaction, resource_id))
        PENDING.set(pending)
    try:
        answer = await carried_out(service, planned(service, sender, step))
    except RefusedError as refusal:
        answer = _outcome_of(service, sender, refusal)
        log.rows.append(log.row(step, interaction, resource_id, answer))
        return answer
    if pending is None or not pending.kept:
        log.rows.append(log.row(step, interaction, resource_id, answer))
    return answer


def _outcome_of(service: Service, sender: BundleSender, refusal: RefusedError) -> HttpAnswer:
    body = outcome(refusal, sender.version, service.configuration.service_identifier_system)
    return HttpAnswer(refusal.category.status, write_json(body))
