"""Orders are written: new ones are kept, their tests come out of them, and every change is judged."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from engine import fault
from engine.fhir.json import Json, JsonObject
from engine.fhir.primitives import ID
from engine.fhir.schema import FhirVersion
from engine.interchange.core.service import Service
from engine.interchange.kernel.exact import read_resource, write_json
from engine.interchange.kernel.extension import url
from engine.interchange.kernel.outcome import Category, refuse
from engine.interchange.kernel.view import to_stored, to_version
from engine.interchange.orders.belonging import numbered, order_id_of, order_number_system
from engine.interchange.orders.order import (
    FHIR,
    NAME,
    OPEN,
    TEST,
    TRANSITIONS,
    OrderEvent,
    OrderStatus,
    actions_of,
    follow,
    of_patient,
    performer_of,
    status_of,
    tests_of,
    with_status,
)
from engine.interchange.orders.validation import Rules, check_complete, check_kept, lab_codes
from engine.interchange.store.references import references_in
from engine.interchange.store.transaction import StoredVersion, Transaction, VersionMethod
from engine.interchange.store.transmission import TransmissionStatus, enqueue, find_sent, withdraw

NESTED: Final = (dict, list)
# What the tests of an order may take along, all together.
MOST_BYTES: Final = 2 * 1024 * 1024


class Apart(NamedTuple):
    """An order whose tests are resources by themselves, and those that came out of it, by their new ids."""

    order: JsonObject
    tests: dict[str, JsonObject]


def contained_tests(order: JsonObject) -> tuple[str, ...]:
    """Return the ids of the contained tests that an order's actions name, each once."""
    tests = {part["id"] for part in order.get("contained", ()) if part.get("resourceType") == TEST and "id" in part}
    named = (action.reference.removeprefix("#") for action in actions_of(order) if action.reference.startswith("#"))
    return tuple(dict.fromkeys(one for one in named if one in tests))


def taken_apart(order: JsonObject, order_id: str, ids: Mapping[str, str]) -> Apart:
    """Return an order without its contained tests, and these; `ids` are theirs as resources, by those they have there.

    What a test refers to comes along; what nothing refers to any more leaves the order. RefusedError (422) where the
    copies of what many tests refer to would be too large.
    """
    if not ids:
        return Apart(order, {})
    parts = {f"#{part.get('id')}": part for part in order["contained"]}
    names = {f"#{within}": f"{TEST}/{test_id}" for within, test_id in ids.items()}
    # Within a test of its own `#` no longer means the order.
    outside = {**names, "#": f"{NAME}/{order_id}"}
    shared = {name: part for name, part in parts.items() if name not in names}
    along = {within: _reached(shared, references_in(parts[f"#{within}"])) for within in ids}
    _check_size(shared, along.values())
    tests = {test_id: _test(parts, within, along[within], outside) for within, test_id in ids.items()}
    rest = _renamed({name: value for name, value in order.items() if name != "contained"}, names)
    others = {name: _renamed(part, names) for name, part in shared.items()}
    inverse = {name for name, part in others.items() if "#" in references_in(part)}
    left = _reached(others, references_in(rest) | inverse)
    if left:
        rest["contained"] = [others[name] for name in left]
    return Apart(rest, tests)


def _test(parts: Mapping[str, JsonObject], within: str, along: list[str], names: Mapping[str, str]) -> JsonObject:
    own = {key: value for key, value in parts[f"#{within}"].items() if key != "id"}
    test: JsonObject = _renamed(own, names)
    return {**test, "contained": [_renamed(parts[other], names) for other in along]} if along else test


def _check_size(parts: Mapping[str, JsonObject], along: Iterable[list[str]]) -> None:
    times = Counter(name for names in along for name in names)
    if sum(count * len(write_json(parts[name])) for name, count in times.items()) > MOST_BYTES:
        text = "The tests refer to too much that is contained: keep it on the service, and refer to it there."
        raise refuse(Category.RULE, text, location=f"{NAME}.contained")


def _reached(parts: Mapping[str, JsonObject], named: Iterable[str]) -> list[str]:
    """Return the names of the contained resources that are named, directly or by one another, in their order."""
    reached: set[str] = set()
    waiting = [name for name in named if name in parts]
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += [other for other in references_in(parts[name]) if other in parts]
    return [name for name in parts if name in reached]


def _renamed(part: Any, names: Mapping[str, str]) -> Any:
    """Return a part of a resource in which references have other names."""
    if isinstance(part, list):
        return [_renamed(one, names) if isinstance(one, NESTED) else one for one in part]
    return {
        key: names.get(value, value)
        if key == "reference" and isinstance(value, str)
        else _renamed(value, names)
        if isinstance(value, NESTED)
        else value
        for key, value in part.items()
    }


REVOKED: Final = FHIR[OrderStatus.CANCELLED]
# What a client may say while it cancels an order that is pending.
WHY: Final = frozenset({"note"})


@dataclass(frozen=True, slots=True)
class OrderPolicy:
    """The rules by which a tenant's orders are checked and stored."""

    rules: Rules
    new_id: Callable[[], str]

    @property
    def sis(self) -> str:
        """The service's identifier system."""
        return self.rules.sis


def order_policy(service: Service, tenant: str) -> OrderPolicy:
    """Return the order policy of a tenant."""
    configuration = service.configuration

    def connected(organization_id: str) -> bool:
        return configuration.laboratory(tenant, organization_id) is not None

    return OrderPolicy(Rules(configuration.service_identifier_system, connected), service.new_id)


def keep_order(
    transaction: Transaction,
    policy: OrderPolicy,
    order_id: str,
    resource: JsonObject,
    status: OrderStatus,
    deleted: StoredVersion | None = None,
    change: VersionMethod = VersionMethod.POST,
) -> StoredVersion:
    """Keep a new order as a draft, or as pending, on its way to the laboratory; its tests come out of it.

    `deleted` is what it brings back. RefusedError (422): it cannot be kept so.
    """
    if deleted is not None:
        _check_unsent(transaction, deleted)
    check_kept(transaction, policy.rules, order_id, resource)
    if status is OrderStatus.PENDING:
        check_complete(transaction, policy.rules, order_id, resource)
    order = _with_tests(transaction, policy, order_id, _marked(resource, policy.sis, order_id, status), status)
    if deleted is not None:
        stored = transaction.bring_back(deleted, order)
    else:
        stored = transaction.create(NAME, order_id, order, change)
    if status is OrderStatus.PENDING:
        place(transaction, policy.sis, stored.id, order)
    return stored


def place(transaction: Transaction, sis: str, order_id: str, order: JsonObject) -> None:
    """Let an order that is pending wait to be sent, in the same commit."""
    fault.point("F43")
    enqueue(transaction, order_id, performer_of(order, sis))
    fault.point("F44")


def notify(service: Service) -> None:
    """Let the laboratories' queue be looked at, now that the commit is on disk.

    Within a transaction of a Bundle, in the thread of the writer, it is not yet, and will be looked at by itself.
    """
    with suppress(RuntimeError):
        asyncio.get_running_loop().call_soon(service.laboratory_wakeup.set)


def judge(
    transaction: Transaction, policy: OrderPolicy, stored: StoredVersion, resource: JsonObject, version: FhirVersion
) -> tuple[JsonObject, OrderStatus]:
    """Return what a client's version of an order is kept as, and its status then.

    The content of an order changes while it is a draft or has failed. Of its status a client says one thing, that it is
    revoked: until it is being sent. RefusedError (409) for all else; what changes nothing may always be written.
    """
    before = stored.resource()
    status, asked = status_of(before, policy.sis), resource.get("status")
    marked = _marked(resource, policy.sis, stored.id, status)
    known = (
        before
        if version is FhirVersion.R4
        else to_stored(read_resource(to_version(stored.body, NAME, version)), version)
    )
    known = _marked(known, policy.sis, stored.id, status)
    changed = {name for name in {*marked, *known} if _without_stamps(marked, name) != _without_stamps(known, name)}
    if asked == REVOKED and status is not OrderStatus.CANCELLED:
        if (status, OrderEvent.CANCEL) not in TRANSITIONS or (status not in OPEN and changed - WHY):
            raise _closed(stored.id, status, "it cannot be cancelled")
        if status is OrderStatus.PENDING and not withdraw(transaction, stored.id):
            text = f"{NAME}/{stored.id} is being transmitted, or the laboratory may have it: it cannot be cancelled."
            raise refuse(Category.CONFLICT, text, location=f"{NAME}.status", detail="order-transmitted")
        status = OrderStatus.CANCELLED
    elif asked not in {FHIR[status], FHIR[OrderStatus.PENDING] if status in OPEN else FHIR[status]}:
        raise _closed(stored.id, status, "a client changes its status to revoked, or by $submit")
    elif not changed:
        return before, status
    elif status not in OPEN:
        raise _closed(stored.id, status, "its content changes no more")
    return marked, status


def keep_change(
    transaction: Transaction,
    policy: OrderPolicy,
    stored: StoredVersion,
    resource: JsonObject,
    status: OrderStatus,
    change: VersionMethod,
) -> StoredVersion:
    """Keep the next version of an order, with its tests; one that it names no longer is revoked. RefusedError (422)."""
    before = stored.resource()
    if of_patient(resource) != of_patient(before):
        text = "The patient of an order does not change: cancel it, and make another order."
        raise refuse(Category.RULE, text, location=f"{NAME}.subject.reference", detail="cross-patient-order")
    check_kept(transaction, policy.rules, stored.id, resource)
    order = _with_tests(transaction, policy, stored.id, with_status(resource, policy.sis, status), status)
    named = tests_of(order)
    for test_id in {*tests_of(before), *named}:
        follow(transaction, test_id, FHIR[status] if test_id in named else REVOKED)
    return transaction.update(stored, order, change)


def _marked(resource: JsonObject, sis: str, order_id: str, status: OrderStatus) -> JsonObject:
    """Return an order with what the service says of it; what a client sends there does not count."""
    made = with_status(resource, sis, status)
    profile, number = url(sis, "order"), {"system": order_number_system(sis), "value": order_id}
    meta = made.get("meta", {})
    if profile not in meta.get("profile", ()):
        made["meta"] = {**meta, "profile": [*meta.get("profile", ()), profile]}
    given = made.get("groupIdentifier")
    if given not in (None, number) and given not in made.get("identifier", ()):
        made["identifier"] = [*made.get("identifier", ()), given]
    made["groupIdentifier"] = number
    return made


def _with_tests(
    transaction: Transaction, policy: OrderPolicy, order_id: str, order: JsonObject, status: OrderStatus
) -> JsonObject:
    """Return an order with its separately kept tests as its own."""
    used = set(tests_of(order))
    ids: dict[str, str] = {}
    for within in contained_tests(order):
        part = next(one for one in order["contained"] if one.get("id") == within)
        ids[within] = _name(transaction, policy, order_id, part, used)
        used.add(ids[within])
    made = taken_apart(order, order_id, ids)
    for test_id, test in made.tests.items():
        new = {**numbered(test, policy.sis, order_id, test_id), "status": FHIR[status]}
        new.pop("_status", None)
        former = transaction.get(TEST, test_id)
        if former is None:
            transaction.create(TEST, test_id, new)
        elif former.deleted:
            transaction.bring_back(former, new)
        else:
            transaction.update(former, new)
    for test_id in tests_of(order):
        _claim(transaction, policy.sis, order_id, test_id, FHIR[status])
    return made.order


def _claim(transaction: Transaction, sis: str, order_id: str, test_id: str, status: str) -> None:
    """Give a test that was on the service already the numbers of an order, unless it has them."""
    stored = transaction.get(TEST, test_id)
    if stored is None or stored.deleted:
        return
    test = stored.resource()
    if order_id_of(test, sis) != order_id:
        transaction.update(stored, {**numbered(test, sis, order_id, test_id), "status": status})


def _name(transaction: Transaction, policy: OrderPolicy, order_id: str, test: JsonObject, used: set[str]) -> str:
    """Return the id of a test: that of its order and its code, where such a one is legal and free; else another."""
    codes = [*lab_codes(test).values(), *(coding.get("code", "") for coding in test.get("code", {}).get("coding", ()))]
    named = f"{order_id}-{next(iter(codes), '')}"
    for candidate in (named, *(f"{named}-{number}" for number in range(2, 10))):
        if not codes or ID.fullmatch(candidate) is None:
            break
        former = transaction.get(TEST, candidate)
        own = former is None or former.deleted or order_id_of(former.resource(), policy.sis) == order_id
        if candidate not in used and own:
            return candidate
    return policy.new_id()


def _check_unsent(transaction: Transaction, deleted: StoredVersion) -> None:
    """Refuse (409) to bring back an order that a laboratory has had: its numbers are known there."""
    sent = find_sent(transaction, deleted.id)
    if sent is not None and sent.standing not in {TransmissionStatus.REFUSED, TransmissionStatus.WITHDRAWN}:
        text = f"{NAME}/{deleted.id} was transmitted before it was deleted; give the new order an id of its own."
        raise refuse(Category.CONFLICT, text, location="http.id", detail="order-transmitted")


def _closed(order_id: str, status: OrderStatus, why: str) -> Exception:
    text = f"{NAME}/{order_id} is {status}: {why}."
    return refuse(Category.CONFLICT, text, location=NAME, detail=f"order-{status}")


def _without_stamps(resource: JsonObject, name: str) -> Json:
    held = resource.get(name)
    if name != "meta" or not isinstance(held, dict):
        return held
    return {key: one for key, one in held.items() if key not in {"versionId", "lastUpdated"}}
