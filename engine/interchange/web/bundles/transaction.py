"""A transaction: all entries of a Bundle in one commit, or none of them."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from engine.fhir.versions.names import name_in
from engine.interchange.core.exchange import HttpAnswer
from engine.interchange.core.service import Service
from engine.interchange.kernel.outcome import Category, RefusedError, refuse
from engine.interchange.rest.resource.links import ORDERS, RESULTS
from engine.interchange.store.access import PENDING, AccessRow
from engine.interchange.store.references import references_in
from engine.interchange.store.transaction import Transaction
from engine.interchange.web.bundles.answers import unversioned
from engine.interchange.web.bundles.plan import READING, BundlePlan, BundleSender, carried_out
from engine.interchange.web.bundles.recording import EntryLog
from engine.interchange.web.bundles.resolve import resolved, target_of
from engine.interchange.web.bundles.within import Within, driven

Answers = dict[int, HttpAnswer]

GROUP: Final = "RequestGroup"
# Order within a phase: patients, orders, other types; last laboratory orders and then results, whose checks read the
# resources that they refer to.
OTHER: Final = 2
RANKS: Final = {**dict.fromkeys(ORDERS, 1), GROUP: 3, **dict.fromkeys(RESULTS, 4), "Patient": 0}
# Reads with a query: if one is refused, the transaction is refused.
QUICK: Final = frozenset({"read", "vread"})


async def carry_out(service: Service, sender: BundleSender, plans: tuple[BundlePlan, ...], log: EntryLog) -> Answers:
    """Return the answers by the entries' places; RefusedError, and nothing is written, where one is refused.

    Searches and histories are left out: all other writes would wait for them. The rows of the others in the access log
    are in the same commit.
    """
    pending = PENDING.get()

    def work(transaction: Transaction) -> Answers:
        run = _Run(replace(service, store=Within(transaction)), transaction, log)
        answers = _carry_out(run, sender, plans)
        if pending is not None:
            pending.entries = tuple(run.rows)
        return answers

    return await service.store.write(sender.principal.tenant, work)


@dataclass(frozen=True, slots=True)
class _Run:
    """One open transaction: the service in it, and the access log's rows of the steps done."""

    service: Service
    transaction: Transaction
    log: EntryLog
    rows: list[AccessRow] = field(default_factory=list)

    def answer(self, plan: BundlePlan, new_id: str = "") -> HttpAnswer:
        """Carry out one step and return its answer; `new_id` is that of what it makes."""
        inner = replace(self.service, new_id=partial(str, new_id)) if new_id else self.service
        self.transaction.touched = set()
        answer = driven(carried_out(inner, plan))
        self.rows.append(
            self.log.row(
                plan.step,
                plan.interaction,
                plan.request.id,
                answer,
                within=self.service,
                touched=self.transaction.touched,
            )
        )
        return answer


def _carry_out(run: _Run, sender: BundleSender, plans: tuple[BundlePlan, ...]) -> Answers:
    inner, transaction = run.service, run.transaction
    answers = _deleted(run, [one for one in plans if one.phase == 0])
    writes = [one for one in plans if 0 < one.phase < READING]
    ids = {one.step.number: target_of(inner, transaction, one) for one in writes}
    _check_once(plans, ids)
    targets = {
        one.step.full_url: f"{name_in(sender.version, one.request.type)}/{ids[one.step.number]}"
        for one in writes
        if one.step.full_url
    }
    transaction.promised = frozenset((one.request.type, ids[one.step.number]) for one in writes)
    for plan in sorted(writes, key=partial(_turn, later=_later(writes, targets))):
        target = ids[plan.step.number]
        body = resolved(inner, transaction, sender, plan, targets)
        meant = replace(plan, request=replace(plan.request, body=body))
        answer = run.answer(meant, target)
        _check_target(plan, answer, target)
        answers[plan.step.number] = answer
    transaction.promised = frozenset()
    reads = [one for one in plans if one.phase == READING and one.interaction.code in QUICK]
    return answers | {one.step.number: run.answer(one) for one in reads}


def _deleted(run: _Run, plans: list[BundlePlan]) -> Answers:
    """Carry out the deletes; a resource that others still refer to is deleted after those."""
    answers: Answers = {}
    while plans:
        waiting: list[BundlePlan] = []
        for plan in plans:
            try:
                answers[plan.step.number] = run.answer(plan)
            except RefusedError as refusal:
                last = refusal
                if refusal.category is not Category.CONFLICT:
                    raise
                waiting.append(plan)
        if len(waiting) == len(plans):
            raise last
        plans = waiting
    return answers


def _check_once(plans: Iterable[BundlePlan], ids: dict[int, str]) -> None:
    """Refuse (400) entries that share a fullUrl or write the same resource: the result would depend on their order."""
    seen: set[tuple[str, str]] = set()
    named: set[str] = set()
    for plan in plans:
        if plan.step.full_url in named:
            where = f"Bundle.entry[{plan.step.number}].fullUrl"
            raise refuse(Category.BAD_VALUE, "Another entry has this fullUrl.", location=where)
        named |= {plan.step.full_url} - {""}
        target = (plan.request.type, ids.get(plan.step.number, plan.request.id))
        if plan.phase == READING or not target[1] or plan.interaction.code == "create":
            continue
        if target in seen:
            text = "Another entry writes the same resource."
            raise refuse(Category.BAD_VALUE, text, location=f"Bundle.entry[{plan.step.number}].request")
        seen.add(target)


def _later(writes: list[BundlePlan], targets: dict[str, str]) -> frozenset[int]:
    """Return the results and laboratory orders that refer to what an entry writes: they are checked after it."""
    put = {targets.get(one.step.full_url, "") for one in writes if one.phase > 1}
    put |= {f"{one.step.path}" for one in writes if one.phase > 1}
    return frozenset(
        one.step.number
        for one in writes
        if one.request.type in {*RESULTS, GROUP}
        and isinstance(one.request.body, dict)
        and "resourceType" in one.request.body
        if not put.isdisjoint(targets.get(name, name) for name in references_in(one.request.body))
    )


def _turn(plan: BundlePlan, *, later: frozenset[int]) -> tuple[bool, int, int, int]:
    return plan.step.number in later, plan.phase, RANKS.get(plan.request.type, OTHER), plan.step.number


def _check_target(plan: BundlePlan, answer: HttpAnswer, target: str) -> None:
    """Refuse (412) an entry whose condition an earlier entry has met: references to it would be dangling."""
    headers = dict(answer.headers)
    place = headers.get("location") or headers.get("content-location", "")
    if unversioned(place).rpartition("/")[2] != target:
        text = "Another entry of the transaction meets the same condition."
        where = f"Bundle.entry[{plan.step.number}].request"
        raise refuse(Category.SEVERAL_MATCHES, text, location=where)
