"""An order as a laboratory gets it: all that it refers to, and the answers at order entry, read at one moment."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from engine.fhir.json import Json, JsonObject
from engine.interchange.kernel.extension import url, value
from engine.interchange.orders.compendium.lookup import find_test
from engine.interchange.orders.order import find_order, performer_of, tests_of
from engine.interchange.orders.validation import PAYERS, lab_codes
from engine.interchange.rest.patient.index import is_record_number
from engine.interchange.store.references import local_target
from engine.interchange.store.transaction import Transaction

Resource = JsonObject


class QuestionAnswer(NamedTuple):
    """One answer: the question as a Coding (its code, or the linkId) and text, and `value` of a FHIR type (`Coding`).

    `number` counts the answers to one question from 1, 0 where there is one only.
    """

    question: Resource
    text: str
    type: str
    value: Json
    number: int


def answers_in(
    response: Resource, find: Callable[[Json], Resource | None], asked_of_test: Callable[[], Resource | None]
) -> Iterator[QuestionAnswer]:
    """Yield the answers of a QuestionnaireResponse at every depth.

    The Questionnaire that it names, else the one of the test, says how questions and answers are coded and worded.
    """
    asked = response.get("questionnaire")
    address = asked.get("reference") if isinstance(asked, dict) else asked
    local = "/".join(str(address or "").split("|")[0].split("/")[-2:])
    questionnaire = find(local) if local.startswith("Questionnaire/") else None
    yield from _answers(response, dict(_questions(questionnaire or asked_of_test() or {})))


def _answers(part: Resource, questions: dict[str, Resource]) -> Iterator[QuestionAnswer]:
    for item in part.get("item", ()):
        given = item.get("answer", ())
        link = str(item.get("linkId", ""))
        question = questions.get(link, {})
        text = item.get("text") or question.get("text") or ""
        code = next(iter(question.get("code", ())), {"code": link, "display": text})
        for number, answer in enumerate(given, 1):
            name = next((key for key in answer if key.startswith("value")), "")
            if name:
                value = _worded(answer[name], question) if name == "valueCoding" else answer[name]
                yield QuestionAnswer(code, text, name.removeprefix("value"), value, number if len(given) > 1 else 0)
            yield from _answers(answer, questions)
        yield from _answers(item, questions)


def _worded(coding: Resource, question: Resource) -> Resource:
    """Return an answer with the words that the question has for it, where it has none itself."""
    options = [answer_option.get("valueCoding", {}) for answer_option in question.get("answerOption", ())]
    shown = [option["display"] for option in options if "display" in option and _named(option) == _named(coding)]
    return {"display": shown[0], **coding} if shown else coding


def _named(coding: Resource) -> tuple[Json, Json]:
    return coding.get("system"), coding.get("code")


def _questions(part: Resource) -> Iterator[tuple[str, Resource]]:
    for item in part.get("item", ()):
        yield str(item.get("linkId", "")), item
        yield from _questions(item)


class Resolver:
    """Finds what references name, as seen from resources that may contain it, the nearest first."""

    def __init__(self, transaction: Transaction, holders: tuple[Resource, ...]) -> None:
        self._transaction = transaction
        self._contained: dict[str, Resource] = {}
        for holder in reversed(holders):
            self._contained |= {f"#{contained.get('id')}": contained for contained in holder.get("contained", ())}

    def __call__(self, reference: Json) -> Resource | None:
        """Return what a Reference or its text names; None where it names nothing that is there."""
        text = reference.get("reference", "") if isinstance(reference, dict) else reference
        if not isinstance(text, str) or not text:
            return None
        if text.startswith("#"):
            return self._contained.get(text)
        type_name, _, resource_id = local_target(text).partition("/")
        stored = self._transaction.get(type_name, resource_id)
        if stored is not None and stored.survivor:
            stored = self._transaction.get(type_name, stored.survivor)
        return None if stored is None or stored.survivor is not None else stored.resource()


@dataclass(frozen=True, slots=True)
class InsuranceCoverage:
    """An insurance: who insures, and who is insured (None for the patient)."""

    resource: Resource
    payor: Resource | None
    insured: Resource | None


@dataclass(frozen=True, slots=True)
class OrderedTest:
    """One test; its id is the placer number, by which the laboratory's results name it.

    `reasons` are CodeableConcepts.
    """

    id: str
    resource: Resource
    answers: tuple[QuestionAnswer, ...]
    specimens: tuple[Resource, ...]
    reasons: tuple[Resource, ...]


@dataclass(frozen=True, slots=True)
class LaboratoryOrder:
    """An order with its content for a laboratory; `record_numbers` are the patient's external MRNs as Identifiers.

    `facility` is the Organization for which it was ordered, `account_type` one of PAYERS or '' where nobody says
    who pays.
    """

    id: str
    tenant: str
    laboratory: str
    resource: Resource
    patient: Resource
    record_numbers: tuple[Resource, ...]
    tests: tuple[OrderedTest, ...]
    requester: Resource | None
    facility: Resource | None
    performer: Resource | None
    encounter: Resource | None
    account_type: str
    coverages: tuple[InsuranceCoverage, ...]
    guarantor: Resource | None

    def __repr__(self) -> str:
        """Return what names it, and nothing of the patient."""
        return f"<LaboratoryOrder {self.id}>"


def read_order(transaction: Transaction, tenant: str, sis: str, order_id: str) -> LaboratoryOrder | None:
    """Return an order with all that it names; None where it, its patient or one of its tests is not there."""
    stored = find_order(transaction, order_id)
    if stored is None:
        return None
    order = stored.resource()
    find = Resolver(transaction, (order,))
    patient = find(order.get("subject"))
    if patient is None:
        return None
    tests = tuple(_tests(transaction, order, sis))
    if len(tests) < len(tests_of(order)):
        return None
    agent, facility = requester_of(order, sis)
    account = find(value(order, sis, "requestgroup-account"))
    return LaboratoryOrder(
        id=order_id,
        tenant=tenant,
        laboratory=performer_of(order, sis),
        resource=order,
        patient=patient,
        record_numbers=tuple(one for one in patient.get("identifier", ()) if is_record_number(one) and "value" in one),
        tests=tests,
        requester=_person(find, agent or _of_tests(tests, "requester") or order.get("author")),
        facility=find(facility or value(order, sis, "requestgroup-authorizedBy")),
        performer=find(value(order, sis, "requestgroup-performer")),
        encounter=find(order.get("encounter")),
        account_type=_account_type(account),
        coverages=tuple(_coverages(transaction, order, tests, account)),
        guarantor=_guarantor(transaction, order, account),
    )


def _tests(transaction: Transaction, order: Resource, sis: str) -> Iterator[OrderedTest]:
    whole = value(order, sis, "requestgroup-specimen")
    for test_id in tests_of(order):
        stored = transaction.get("ServiceRequest", test_id)
        if stored is None or stored.deleted:
            continue
        test = stored.resource()
        find = Resolver(transaction, (test, order))
        asked = partial(_asked, transaction, performer_of(order, sis), test)
        responses = (find(supporting_info) for supporting_info in test.get("supportingInfo", ()))
        specimens = [find(one) for one in test.get("specimen") or ([whole] if whole else ())]
        yield OrderedTest(
            id=test_id,
            resource=test,
            answers=tuple(
                answer
                for response in responses
                if response is not None and response["resourceType"] == "QuestionnaireResponse"
                for answer in answers_in(response, find, asked)
            ),
            specimens=tuple(specimen for specimen in specimens if specimen is not None),
            reasons=tuple(_reasons(find, test, order, sis)),
        )


def _asked(transaction: Transaction, laboratory: str, test: Resource) -> Resource | None:
    """Return the Questionnaire that a laboratory has for a test, None for none."""
    code = lab_codes(test).get(laboratory, "")
    found = find_test(transaction, laboratory, code) if code else None
    return Resolver(transaction, ())(f"Questionnaire/{found.questionnaire}") if found and found.questionnaire else None


def _reasons(find: Resolver, test: Resource, order: Resource, sis: str) -> Iterator[Resource]:
    """Yield why a test is ordered: what it says itself, else what the order says."""
    for holder in (test, order):
        own = [*holder.get("reasonCode", ())]
        held = value(holder, sis, "requestgroup-reasoncode")
        own += [held] if isinstance(held, dict) else []
        conditions = (find(reason_reference) for reason_reference in holder.get("reasonReference", ()))
        own += [condition["code"] for condition in conditions if condition is not None and "code" in condition]
        if own:
            yield from own
            return


def requester_of(order: Resource, sis: str) -> tuple[JsonObject | None, JsonObject | None]:
    """Return the references to who ordered and to the organization behind; None where they are not named."""
    address = url(sis, "requestgroup-requester")
    parts = next((one.get("extension", ()) for one in order.get("extension", ()) if one.get("url") == address), ())
    named = {part.get("url"): part.get("valueReference") for part in parts}
    return named.get("agent"), named.get("onBehalfOf")


def _of_tests(tests: tuple[OrderedTest, ...], name: str) -> JsonObject | None:
    return next((test.resource[name] for test in tests if name in test.resource), None)


def _person(find: Resolver, reference: JsonObject | None) -> Resource | None:
    """Return who is referred to; of somebody in a role the person."""
    found = find(reference)
    if found is not None and found["resourceType"] == "PractitionerRole":
        return find(found.get("practitioner"))
    return found


def _account_type(account: Resource | None) -> str:
    codings = (account or {}).get("type", {}).get("coding", ())
    return next((coding["code"] for coding in codings if coding.get("code") in PAYERS), "")


def _coverages(
    transaction: Transaction, order: Resource, tests: tuple[OrderedTest, ...], account: Resource | None
) -> Iterator[InsuranceCoverage]:
    """Yield the insurances of the account in its order, else those that the tests name."""
    billed = sorted((account or {}).get("coverage", ()), key=lambda one: int(one.get("priority", 1)))
    references = [one.get("coverage") for one in billed]
    references = references or [insurance for test in tests for insurance in test.resource.get("insurance", ())]
    known: set[str] = set()
    for reference in references:
        holders = (account or order, order, *(test.resource for test in tests))
        coverage = Resolver(transaction, holders)(reference)
        if coverage is None or coverage["resourceType"] != "Coverage" or coverage.get("id", "") in known:
            continue
        known.add(coverage.get("id", ""))
        find = Resolver(transaction, (coverage, *holders))
        insured = find(coverage.get("policyHolder") or coverage.get("subscriber"))
        yield InsuranceCoverage(
            coverage,
            next((one for one in map(find, coverage.get("payor", ())) if one is not None), None),
            None if insured is None or insured["resourceType"] == "Patient" else insured,
        )


def _guarantor(transaction: Transaction, order: Resource, account: Resource | None) -> Resource | None:
    """Return who the account says is to pay: a Patient, a RelatedPerson or an Organization."""
    find = Resolver(transaction, (account or order, order))
    parties = (find(one.get("party")) for one in (account or {}).get("guarantor", ()) if not one.get("onHold"))
    return next((party for party in parties if party is not None), None)
