"""POST to a base: a Bundle of requests, as batch or as transaction."""

import asyncio
from typing import Any

from engine.interchange.bundles.answers import write_answers
from engine.interchange.bundles.plan import Sender, carried_out, phase_of, planned
from engine.interchange.bundles.step import Kind, Step, read_bundle
from engine.interchange.bundles.transaction import carry_out
from engine.interchange.exact import write_json
from engine.interchange.exchange import Answer
from engine.interchange.outcome import RefusedError, outcome
from engine.interchange.service import Service

Json = Any


async def answer_bundle(service: Service, sender: Sender, body: Json, *, large: bool) -> tuple[Kind, Answer]:
    """Return what was done and its answer: 200 with a Bundle; RefusedError for a transaction that is refused."""
    if large:
        kind, steps = await asyncio.to_thread(read_bundle, body, sender.version, sender.base)
    else:
        kind, steps = read_bundle(body, sender.version, sender.base)
    found: dict[int, Answer] = {}
    if kind is Kind.TRANSACTION:
        found = await carry_out(service, sender, tuple(planned(service, sender, step) for step in steps))
    left = [step for step in steps if step.number not in found]
    for step in sorted(left, key=lambda one: phase_of(one.method)):
        found[step.number] = await _alone(service, sender, step)
    answered = [(step, found[step.number]) for step in steps]
    return kind, Answer(200, write_answers(service.new_id(), kind, sender.base, answered))


async def _alone(service: Service, sender: Sender, step: Step) -> Answer:
    """Carry out a step for itself; a refusal is its own answer."""
    try:
        return await carried_out(service, planned(service, sender, step))
    except RefusedError as refusal:
        told = outcome(refusal, sender.version, service.configuration.service_identifier_system)
        return Answer(refusal.category.status, write_json(told))
