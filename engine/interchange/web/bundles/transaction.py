"""A transaction: all entries of a Bundle in one commit or none, their ids and references resolved before."""

from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, TypeVar

from engine.fhir.json import Json
from engine.fhir.versions.names import name_in, r4_name
from engine.interchange.core.exchange import FhirRequest, HttpAnswer, InteractionLevel
from engine.interchange.core.service import Service
from engine.interchange.kernel.outcome import Category, RefusedError, refuse
from engine.interchange.rest.access import read_query
from engine.interchange.rest.patient.index import CONDITIONAL
from engine.interchange.rest.resource.catalogue import KEPT
from engine.interchange.rest.resource.links import ORDERS, RESULTS
from engine.interchange.rest.resource.precondition import match_condition, parse_condition, parse_criteria
from engine.interchange.rest.resource.update import PATIENT, conditional
from engine.interchange.store.access import PENDING, AccessRow
from engine.interchange.store.query import find
from engine.interchange.store.references import references_in
from engine.interchange.store.search.parse import parse_search
from engine.interchange.store.store import Store
from engine.interchange.store.transaction import StoredVersion, Transaction
from engine.interchange.tokens.scope import allows
from engine.interchange.web.bundles.plan import READING, BundlePlan, BundleSender, EntryLog, carried_out
from engine.interchange.web.bundles.step import placed, unversioned

T = TypeVar("T")


class Within(Store):
    """Lets interactions read and write in the open transaction, which has one tenant: the argument is ignored."""

    def __init__(self, transaction: Transaction) -> None:
        self._inner = transaction

    def read(self, tenant: str, work: Callable[[Transaction], T]) -> T:  # noqa: ARG002 - of the one tenant
        """Run `work` on the transaction."""
        return work(self._inner)

    def find(self, tenant: str, type_name: str, resource_id: str) -> StoredVersion | None:  # noqa: ARG002 - of the one tenant
        """Return a resource by its id, as the transaction has it."""
        return self._inner.get(type_name, resource_id)

    async def write(self, tenant: str, work: Callable[[Transaction], T]) -> T:  # noqa: ARG002 - of the one tenant
        """Run `work` on the transaction; nothing is on disk before the whole is."""
        return work(self._inner)


def driven(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that waits for nothing."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    coroutine.close()
    raise RuntimeError("an interaction waits within a transaction")


NESTED: Final = (dict, list)


def target_of(service: Service, transaction: Transaction, plan: BundlePlan) -> str:
    """Return the id that an entry writes: that of the resource its condition matches, the body's, or a new one."""
    request, base_url = plan.request, service.configuration.base_url
    try:
        # A condition must not reveal a match to a client without access to it.
        plan.admission.restrict(service, request)
        if plan.interaction.code == "create":
            parameters = CONDITIONAL if request.type == "Patient" else _parameters(request)
            match = match_condition(transaction, parse_condition(request, parameters, base_url))
            return match.id if match is not None else service.new_id()
        if plan.interaction.level is InteractionLevel.TYPE:
            wanted = parse_criteria(request, conditional(request), base_url)
            match = match_condition(transaction, wanted, "http.query")
            given = request.body.get("id") if isinstance(request.body, dict) else None
            return match.id if match is not None else str(given or service.new_id())
    except RefusedError as refusal:
        raise placed(refusal, plan.step.number) from refusal
    return request.id


def resolved(
    service: Service, transaction: Transaction, sender: BundleSender, plan: BundlePlan, targets: Mapping[str, str]
) -> Json:
    """Return the body of an entry with its references to other entries, and its conditional ones, as `Type/id`."""
    try:
        return _resolved(plan.request.body, service, transaction, sender, targets)
    except RefusedError as refusal:
        raise placed(refusal, plan.step.number) from refusal


def _resolved(
    part: Json, service: Service, transaction: Transaction, sender: BundleSender, targets: Mapping[str, str]
) -> Json:
    if isinstance(part, list):
        return [
            _resolved(one, service, transaction, sender, targets) if isinstance(one, NESTED) else one for one in part
        ]
    if not isinstance(part, dict):
        return part
    made = {
        name: _resolved(value, service, transaction, sender, targets) if isinstance(value, NESTED) else value
        for name, value in part.items()
    }
    reference = part.get("reference")
    if isinstance(reference, str):
        made["reference"] = targets.get(reference) or _one(service, transaction, sender, reference)
    url = part.get("url")
    if isinstance(url, str) and url in targets:
        made["url"] = targets[url]
    return made


def _one(service: Service, transaction: Transaction, sender: BundleSender, reference: str) -> str:
    """Return the one resource that a conditional reference (`Patient?identifier=…`) matches; others as they are."""
    name, mark, query = reference.removeprefix(f"{sender.base}/").partition("?")
    type_name = r4_name(name)
    if not mark or type_name not in KEPT or name_in(sender.version, type_name) != name:
        return reference
    strict = service.tenant(sender.principal.tenant).scope_enforcement == "strict"
    if sender.principal.patient or (strict and not allows(sender.principal.scopes, type_name, "s")):
        text = f"No scope of the token allows to search {name}."
        raise refuse(Category.FORBIDDEN, text, location="http.Authorization")
    known = KEPT[type_name].search_parameters(sender.version)
    parameters = {key: one for key, one in known.items() if type_name != "Patient" or key in PATIENT}
    wanted = parse_search(type_name, parameters, read_query(query), service.configuration.base_url, sender.version)
    if not wanted.criteria:
        raise refuse(Category.BAD_VALUE, "A conditional reference names no criterion.", location="http.reference")
    matches = find(transaction, wanted, count=2)
    if matches.total != 1:
        category = Category.AMBIGUOUS if matches.total else Category.UNRESOLVED
        text = "A conditional reference matches several resources." if matches.total else "It matches no resource."
        raise refuse(category, text, location="http.reference")
    return f"{name}/{matches.records[0].id}"


def _parameters(request: FhirRequest) -> Mapping[str, Any]:
    return KEPT[request.type].search_parameters(request.version)


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
    ids = {write.step.number: target_of(inner, transaction, write) for write in writes}
    _check_once(plans, ids)
    targets = {
        write.step.full_url: f"{name_in(sender.version, write.request.type)}/{ids[write.step.number]}"
        for write in writes
        if write.step.full_url
    }
    transaction.promised = frozenset((write.request.type, ids[write.step.number]) for write in writes)
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
    put = {targets.get(write.step.full_url, "") for write in writes if write.phase > 1}
    put |= {f"{write.step.path}" for write in writes if write.phase > 1}
    return frozenset(
        write.step.number
        for write in writes
        if write.request.type in {*RESULTS, GROUP}
        and isinstance(write.request.body, dict)
        and "resourceType" in write.request.body
        if not put.isdisjoint(targets.get(name, name) for name in references_in(write.request.body))
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
