"""The rules for an order before a laboratory gets it, with its present tests: all violations at once, with places."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from engine.fhir.json import JsonObject
from engine.interchange.kernel.extension import url, value
from engine.interchange.kernel.outcome import Category, Issue, RefusedError, refuse
from engine.interchange.orders.belonging import order_id_of, order_of
from engine.interchange.orders.compendium import lookup
from engine.interchange.orders.compendium.answers import unanswered, wrong
from engine.interchange.orders.order import NAME, PERFORMER, TEST, actions_of, of_patient, performer_of
from engine.interchange.store.references import local_target
from engine.interchange.store.transaction import Transaction


class PlacedTest(NamedTuple):
    """A test: its action, where it is itself, and what it is; `id` is '' while the order contains it.

    `holder` is the resource in which its references of the form `#id` lead somewhere. `test` is None where an action
    names nothing that could be one.
    """

    action: str
    path: str
    id: str
    test: JsonObject | None
    holder: JsonObject


def placed_tests(transaction: Transaction, order: JsonObject) -> Iterator[PlacedTest]:
    """Yield the tests of an order in the order of its actions, each once; actions without a resource have none."""
    seen: set[str] = set()
    for action, _, reference in actions_of(order):
        target = reference if reference.startswith("#") else local_target(reference)
        if not target or target in seen:
            continue
        seen.add(target)
        place = f"{action}.resource"
        index, part = contained_at(order, target)
        if part is not None:
            test = part if part.get("resourceType") == TEST else None
            yield PlacedTest(place, f"{_root(action)}.contained[{index}]", "", test, order)
            continue
        type_name, _, test_id = target.partition("/")
        found = resolved(transaction, order, target) if type_name == TEST else None
        yield PlacedTest(place, place, test_id, found, found or {})


def resolved(transaction: Transaction, holder: JsonObject, reference: str) -> JsonObject | None:
    """Return what a reference within a resource names, contained or kept; None where that is not there."""
    if reference.startswith("#"):
        return contained_at(holder, reference)[1]
    type_name, _, resource_id = local_target(reference).partition("/")
    stored = transaction.get(type_name, resource_id)
    return stored.resource() if stored is not None and not stored.deleted else None


def contained_at(holder: JsonObject, reference: str) -> tuple[int, JsonObject | None]:
    """Return the place and the resource of `#id` within a resource; None where it contains none."""
    for index, part in enumerate(holder.get("contained", ())):
        if reference == f"#{part.get('id')}":
            return index, part
    return 0, None


def _root(action: str) -> str:
    return action.partition(".")[0]


ACCOUNT: Final = "requestgroup-account"
SPECIMEN: Final = "requestgroup-specimen"
ENABLED: Final = "organization-orderingEnabled"
INTENTS: Final = ("order", "original-order", "reflex-order", "filler-order", "instance-order")
# Of Account.type: who pays.
PAYERS: Final = ("self", "patient", "guarantor", "thirdParty")
# What of a test names its answers and specimens; and how much of everything an order may have.
NAMING: Final = ("supportingInfo", "specimen")
MOST: Final = 200
# In which a test may be that is not this order's yet.
USABLE: Final = frozenset({"draft", "active", "on-hold"})
SPLIT: Final = "order-splitting-required"
# Issue codes.
REQUIRED: Final = "required"
INVALID: Final = "invalid"
RULE: Final = "business-rule"
ABSENT: Final = "not-found"
PROCESSING: Final = "processing"


@dataclass(frozen=True, slots=True)
class Rules:
    """By what orders of a tenant are judged: the service's identifier system, and which laboratories are connected."""

    sis: str
    connected: Callable[[str], bool]


def check_kept(transaction: Transaction, rules: Rules, order_id: str, order: JsonObject) -> None:
    """Refuse (422) an order that must not even be a draft: its tests become those of the patient's chart."""
    _check_size(order)
    tests = placed_tests(transaction, order)
    _raise([issue for test in tests for issue in _own(transaction, rules.sis, order_id, order, test)])


def check_complete(transaction: Transaction, rules: Rules, order_id: str, order: JsonObject) -> None:
    """Refuse (422) an order that no laboratory could carry out, with one issue for each fault."""
    tests = list(placed_tests(transaction, order))
    found = [*_intent(order), *_performer(transaction, rules, order), *_account(transaction, rules.sis, order)]
    if not any(test.test is not None for test in tests):
        found.append(Issue("An order has at least one test.", f"{NAME}.action", "no-test", REQUIRED))
    for test in tests:
        found += _own(transaction, rules.sis, order_id, order, test)
    found += _codes(transaction, rules.sis, order, [test for test in tests if test.test is not None])
    _raise(found)


def _check_size(order: JsonObject) -> None:
    """Refuse (422) an order for which all other writes would wait: it is judged and taken apart while they do."""
    parts = [part for part in order.get("contained", ()) if part.get("resourceType") == TEST]
    named = [one for part in parts for name in NAMING for one in part.get(name, ())]
    sizes = ((sum(1 for _ in actions_of(order)), "actions"), (len(order.get("contained", ())), "contained"))
    for size, what in (*sizes, (len(named), "references of its tests")):
        if size > MOST:
            text = f"An order has at most {MOST} {what}."
            raise refuse(Category.RULE, text, location=NAME)


def lab_codes(test: JsonObject) -> dict[str, str]:
    """Return the code that a test has in each laboratory's compendium, by the laboratory's id."""
    codings = test.get("code", {}).get("coding", ())
    return {
        coding["system"].removeprefix(lookup.SYSTEM): coding["code"]
        for coding in reversed(codings)
        if coding.get("system", "").startswith(lookup.SYSTEM) and coding.get("code")
    }


def _raise(found: list[Issue]) -> None:
    if found:
        raise RefusedError(Category.INVALID, tuple(dict.fromkeys(found)))


def _intent(order: JsonObject) -> Iterator[Issue]:
    if order.get("intent") not in INTENTS:
        text = f"What is ordered has an intent of: {', '.join(INTENTS)}."
        yield Issue(text, f"{NAME}.intent", "no-order", INVALID)


def _performer(transaction: Transaction, rules: Rules, order: JsonObject) -> Iterator[Issue]:
    path = f"{NAME}.extension({PERFORMER})"
    laboratory = performer_of(order, rules.sis)
    if not laboratory:
        text = f"The order names no laboratory: extension {url(rules.sis, PERFORMER)}, a reference to an Organization."
        yield Issue(text, path, "no-performer", REQUIRED)
        return
    organization = resolved(transaction, order, f"Organization/{laboratory}")
    if organization is None:
        yield Issue("The laboratory does not exist.", path, "no-performer", ABSENT)
    elif value(organization, rules.sis, ENABLED) is not True:
        yield Issue("The Organization takes no orders.", path, "not-ordering-enabled", RULE)
    elif not rules.connected(laboratory):
        text = "The laboratory is not connected: no connector is configured for it."
        yield Issue(text, path, "not-connected", RULE)


def _account(transaction: Transaction, sis: str, order: JsonObject) -> Iterator[Issue]:
    reference = value(order, sis, ACCOUNT)
    if reference is None:
        return
    path = f"{NAME}.extension({ACCOUNT})"
    named = str(reference.get("reference", "")) if isinstance(reference, dict) else ""
    account = resolved(transaction, order, named) if named else None
    if account is None or account.get("resourceType") != "Account":
        yield Issue("The account of the order is a reference to an Account.", path, "no-account", INVALID)
        return
    codes = {coding.get("code") for coding in account.get("type", {}).get("coding", ())}
    if codes.isdisjoint(PAYERS):
        yield Issue(f"Account.type says who pays: one of {', '.join(PAYERS)}.", path, "account-type", INVALID)


def _own(transaction: Transaction, sis: str, order_id: str, order: JsonObject, placed: PlacedTest) -> Iterator[Issue]:
    """Yield why something cannot be a test of this order."""
    test = placed.test
    if test is None:
        text = "The action names no test: a ServiceRequest (STU3: ProcedureRequest), contained or on this service."
        yield Issue(text, placed.action, "no-test", INVALID)
        return
    if of_patient(test) != of_patient(order):
        yield Issue("The test is of another patient than the order.", placed.path, "cross-patient-order", RULE)
    for reference in (*(one for name in NAMING for one in test.get(name, ())),):
        found = resolved(transaction, placed.holder, str(reference.get("reference", "")))
        if found is not None and of_patient(found) not in {"", of_patient(order)}:
            text = "The test refers to what is of another patient than the order."
            yield Issue(text, placed.path, "cross-patient-order", RULE)
    if not placed.id or order_id_of(test, sis) == order_id:
        return
    if order_of(transaction, sis, placed.id, test) is not None:
        yield Issue("The test belongs to another order.", placed.action, "other-order", RULE)
    elif test.get("status") not in USABLE:
        text = f"A test that is ordered is {', '.join(sorted(USABLE))}."
        yield Issue(text, placed.action, "test-status", RULE)


def _codes(transaction: Transaction, sis: str, order: JsonObject, tests: list[PlacedTest]) -> Iterator[Issue]:
    """Yield what is wrong with what the tests ask of the laboratory."""
    laboratory = performer_of(order, sis)
    known = [(test, lab_codes(test.test or {})) for test in tests]
    groups: dict[str, list[str]] = {}
    for _, codes in known if laboratory else ():
        whose = laboratory if laboratory in codes or not codes else min(codes)
        groups.setdefault(whose, []).append(codes.get(whose, ""))
    if len(groups) > 1:
        listed = ";".join("|".join(filter(None, codes)) for codes in groups.values())
        yield Issue(
            f"Make an order for each laboratory; the tests of each: {listed}.", f"{NAME}.action", SPLIT, PROCESSING
        )
        return
    configured = bool(laboratory) and lookup.configured(transaction, laboratory)
    for placed, codes in known:
        path = f"{placed.path}.code" if not placed.id else placed.action
        code = codes.get(laboratory, "")
        if not any(coding.get("code") for coding in (placed.test or {}).get("code", {}).get("coding", ())):
            yield Issue("The test has no code.", path, "no-code", REQUIRED)
        elif codes and not code and laboratory:
            yield Issue("The test is of another laboratory than the order.", path, "unknown-test", INVALID)
        elif configured:
            yield from _compendium(transaction, sis, order, placed, laboratory, code, path)


def _compendium(
    transaction: Transaction,
    sis: str,
    order: JsonObject,
    placed: PlacedTest,
    laboratory: str,
    code: str,
    path: str,
) -> Iterator[Issue]:
    found = lookup.find_test(transaction, laboratory, code) if code else None
    if found is None and code and lookup.withdrawn(transaction, laboratory, code):
        yield Issue("The laboratory offers this test no longer.", path, "unknown-test", INVALID)
    elif found is None:
        text = f"The laboratory has no such test: its codes are of {lookup.system_of(laboratory)}."
        yield Issue(text, path, "unknown-test", INVALID)
    elif found.questionnaire:
        questionnaire = resolved(transaction, {}, f"Questionnaire/{found.questionnaire}") or {}
        yield from _answers(transaction, sis, order, placed, questionnaire)


def _answers(
    transaction: Transaction, sis: str, order: JsonObject, placed: PlacedTest, questionnaire: JsonObject
) -> Iterator[Issue]:
    """Yield what is missing in the answers to a test's questions, and which of them are wrong."""
    test, asked = placed.test or {}, f"Questionnaire/{questionnaire.get('id')}"
    collected = bool(value(order, sis, SPECIMEN)) or bool(test.get("specimen"))
    own = [response for response in _responses(transaction, placed, test) if _is_to(response.response, questionnaire)]
    left = [unanswered(questionnaire, one.response, collected=collected) for one in own]
    left = left or [unanswered(questionnaire, None, collected=collected)]
    for link_id in left[0]:
        if all(link_id in others for others in left):
            text = f"The laboratory asks this: answer it as {asked} says."
            yield Issue(text, f"{placed.action}.item.where(linkId='{link_id}')", "unanswered", REQUIRED)
    for one in own if len(own) == 1 else ():
        for problem in wrong(questionnaire, one.response):
            text = f"The answer does not fit {asked}: expected {problem.expected}."
            yield Issue(text, f"{one.path}.{problem.place}", "answer", INVALID)


class _Response(NamedTuple):
    path: str
    response: JsonObject


def _responses(transaction: Transaction, placed: PlacedTest, test: JsonObject) -> Iterator[_Response]:
    for index, one in enumerate(test.get("supportingInfo", ())):
        reference = str(one.get("reference", ""))
        found = resolved(transaction, placed.holder, reference) if reference else None
        if found is not None and found.get("resourceType") == "QuestionnaireResponse":
            at = contained_at(placed.holder, reference)[0]
            within = reference.startswith("#") and not placed.id
            yield _Response(f"{NAME}.contained[{at}]" if within else f"{placed.path}.supportingInfo[{index}]", found)


def _is_to(response: JsonObject, questionnaire: JsonObject) -> bool:
    """Say whether a response is to a questionnaire: it names that one, or none."""
    named = str(response.get("questionnaire", "")).partition("|")[0]
    return named in {"", questionnaire.get("url")} or named.rpartition("/")[2] == questionnaire.get("id")
