"""What is kept of laboratories' tests, as people read it: which laboratories, which tests, and what a test asks."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

from engine.config.model import nearest
from engine.errors import UsageError
from engine.fhir.json import JsonObject
from engine.interchange.orders.compendium.lookup import ACTIVE, QUESTIONS, SYSTEM, TESTS, carriers, system_of, title_of
from engine.interchange.orders.compendium.questionnaire_item import QuestionnaireItem, items_of
from engine.interchange.rest.resource.elements import values
from engine.interchange.store.place import Place, open_known
from engine.interchange.store.search.text import fold, short
from engine.interchange.store.transaction import EPOCH, StoredVersion, Transaction

TENANTS: Final = "SELECT name, number FROM tenant"
# The systems of tests are few, however many tests there are: from each the index leads to the next.
NEXT_SYSTEM: Final = (
    "SELECT system FROM token_index WHERE tenant=? AND parameter=? AND system>? AND system<? ORDER BY system LIMIT 1"
)
OF_SYSTEM: Final = "SELECT DISTINCT key FROM token_index WHERE tenant=? AND parameter=? AND system=?"
BEHIND: Final = SYSTEM[:-1] + ";"
LOINC: Final = "http://loinc.org"


class LaboratorySeen(NamedTuple):
    """A laboratory whose tests are kept; `orderable` are those of its tests that may be ordered."""

    id: str
    name: str
    ordering_enabled: bool
    tests: int
    orderable: int


class TestSeen(NamedTuple):
    """A test of a laboratory; `questionnaire` is the id of what it asks, '' for nothing."""

    code: str
    title: str
    status: str
    loinc: str
    specimen: str
    synonyms: tuple[str, ...]
    questionnaire: str


class QuestionSeen(NamedTuple):
    """A question; `depth` is its nesting, `when` the answers on which it depends."""

    id: str
    depth: int
    text: str
    type: str
    required: str
    options: tuple[str, ...]
    when: str


def list_laboratories(database: Place, tenant: str) -> tuple[LaboratorySeen, ...]:
    """Return the laboratories whose tests a tenant keeps, by id. StartError: no database; UsageError: no tenant."""
    with _reading(database, tenant) as transaction:
        return tuple(_laboratory(transaction, system.removeprefix(SYSTEM)) for system in _systems(transaction))


def list_tests(database: Place, tenant: str, laboratory: str, text: str = "") -> tuple[TestSeen, ...]:
    """Return the tests of a laboratory with a text in code, title or a synonym, by code; UsageError for no test."""
    with _reading(database, tenant) as transaction:
        found = [_test(transaction, laboratory, stored) for stored in _tests(transaction, laboratory)]
        if not found:
            known = (system.removeprefix(SYSTEM) for system in _systems(transaction))
            raise UsageError(f"there are no tests of a laboratory {laboratory}; {nearest(laboratory, known)}")
    wanted = fold(text)
    return tuple(sorted(one for one in found if wanted in fold(" ".join((one.code, one.title, *one.synonyms)))))


def show_test(database: Place, tenant: str, laboratory: str, code: str) -> tuple[TestSeen, tuple[QuestionSeen, ...]]:
    """Return a test of a laboratory with its questions; UsageError for none."""
    with _reading(database, tenant) as transaction:
        found = [_test(transaction, laboratory, stored) for stored in carriers(transaction, TESTS, laboratory, code)]
        if not found:
            known = (_code(stored.resource(), laboratory) for stored in _tests(transaction, laboratory))
            raise UsageError(f"there is no test {code} of the laboratory {laboratory}; {_near(code, set(known))}")
        # The one that may be ordered, where there are several.
        test = next((one for one in found if one.status == ACTIVE), found[0])
        asked = transaction.get("Questionnaire", test.questionnaire) if test.questionnaire else None
        return test, tuple(_questions(items_of(asked.resource()))) if asked is not None else ()


def _near(code: str, codes: set[str]) -> str:
    advice = nearest(code, codes)
    return advice if "?" in advice else "adt-engine interchange compendium show LAB lists its tests"


@contextmanager
def _reading(database: Place, tenant: str) -> Iterator[Transaction]:
    connection = open_known(database)
    try:
        numbers = dict(connection.execute(TENANTS).fetchall())
        if tenant not in numbers:
            raise UsageError(f"there is no tenant {tenant!r}; {nearest(tenant, numbers)}")
        yield Transaction(connection, numbers[tenant], EPOCH, {})
    finally:
        connection.close()


def _systems(transaction: Transaction) -> Iterator[str]:
    last = SYSTEM
    while row := transaction.connection.execute(NEXT_SYSTEM, (transaction.tenant, TESTS, last, BEHIND)).fetchone():
        last = row[0]
        yield last


def _tests(transaction: Transaction, laboratory: str) -> Iterator[StoredVersion]:
    arguments = (transaction.tenant, TESTS, short(system_of(laboratory)))
    for (key,) in transaction.connection.execute(OF_SYSTEM, arguments).fetchall():
        yield transaction.by_key(key)


def _laboratory(transaction: Transaction, laboratory: str) -> LaboratorySeen:
    stored = transaction.get("Organization", laboratory)
    kept = stored.resource() if stored is not None and stored.survivor is None else {}
    enabled = values(kept, "extension(organization-orderingEnabled).value[x]") == [True]
    statuses = [test.resource().get("status") for test in _tests(transaction, laboratory)]
    return LaboratorySeen(laboratory, kept.get("name", ""), enabled, len(statuses), statuses.count(ACTIVE))


def _test(transaction: Transaction, laboratory: str, stored: StoredVersion) -> TestSeen:
    definition = stored.resource()
    code = _code(definition, laboratory)
    numbers = [value["code"] for value in values(definition, "code.coding") if value.get("system") == LOINC]
    specimen = values(definition, "extension(activitydefinition-specimen).valueCodeableConcept")
    asked = (carrier.id for carrier in carriers(transaction, QUESTIONS, laboratory, code) if _active(carrier))
    return TestSeen(
        code,
        title_of(definition, laboratory, code),
        definition.get("status", ""),
        ", ".join(numbers),
        ", ".join(str(one.get("text") or values(one, "coding.code")[0]) for one in specimen),
        tuple(values(definition, "extension(activitydefinition-synonym).valueString")),
        next(asked, ""),
    )


def _active(stored: StoredVersion) -> bool:
    return bool(stored.resource().get("status") == ACTIVE)


def _code(definition: JsonObject, laboratory: str) -> str:
    codings = values(definition, "code.coding")
    return next((coding["code"] for coding in codings if coding.get("system") == system_of(laboratory)), "")


def _questions(asked: Sequence[QuestionnaireItem], depth: int = 0) -> Iterator[QuestionSeen]:
    for one in asked:
        item = one.item
        options = tuple(map(_option, item.get("answerOption", ())))
        required = "yes" if one.required(collected=False) else "when-collected" if one.required(collected=True) else ""
        yield QuestionSeen(one.link_id, depth, item.get("text", ""), one.kind, required, options, _when(item))
        yield from _questions(one.items, depth + 1)


def _option(option: JsonObject) -> str:
    value = next((value for name, value in option.items() if name.startswith("value")), "")
    if not isinstance(value, dict):
        return str(value)
    code, shown = value.get("code", ""), value.get("display", "")
    return f"{code} ({shown})" if shown and shown != code else str(code or shown)


def _when(item: JsonObject) -> str:
    conditions = [_condition(enable_when) for enable_when in item.get("enableWhen", ())]
    return (" and " if item.get("enableBehavior") == "all" else " or ").join(conditions)


def _condition(condition: JsonObject) -> str:
    operator = condition.get("operator", "")
    wanted = next((value for name, value in condition.items() if name.startswith("answer")), "")
    if operator == "exists":
        return f"{condition['question']} {'answered' if wanted else 'not answered'}"
    if isinstance(wanted, dict):
        wanted = wanted.get("code") or f"{wanted.get('value', '')} {wanted.get('unit', '')}".strip()
    elif isinstance(wanted, bool):
        wanted = "yes" if wanted else "no"
    return f"{condition['question']} {operator} {wanted}"
