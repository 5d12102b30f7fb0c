"""POST to a base: a Bundle of requests, as batch or as transaction."""

import asyncio
from typing import Any

from engine.interchange.bundles.answers import write_answers
from engine.interchange.bundles.plan import Sender, carried_out, planned
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
    if kind is Kind.TRANSACTION:
        plans = tuple(planned(service, sender, step) for step in steps)
        found = await carry_out(service, sender, plans)
        answers = [found[number] for number in range(len(plans))]
    else:
        answers = await _batch(service, sender, steps)
    return kind, Answer(200, write_answers(service.new_id(), kind, answers))


async def _batch(service: Service, sender: Sender, steps: tuple[Step, ...]) -> list[Answer]:
    """Carry out each step for itself, deletes first and reads last."""
    order = {"DELETE": 0, "POST": 1, "PUT": 2, "PATCH": 2}
    found: dict[int, Answer] = {}
    for step in sorted(steps, key=lambda one: order.get(one.method, 3)):
        try:
            found[step.number] = await carried_out(service, planned(service, sender, step))
        except RefusedError as refusal:
            told = outcome(refusal, sender.version, service.configuration.service_identifier_system)
            found[step.number] = Answer(refusal.category.status, write_json(told))
    return [found[number] for number in range(len(steps))]
