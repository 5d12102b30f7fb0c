"""What is known of a laboratory's tests: which may be ordered, which no more, and what each asks.

A test is an ActivityDefinition, its questions are a Questionnaire; both carry the laboratory's code of the test.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from engine.fhir.json import JsonObject
from engine.interchange.store.search.text import short
from engine.interchange.store.transaction import StoredVersion, Transaction

SYSTEM: Final = "urn:uuid:f:"
TESTS: Final = "ActivityDefinition.code"
QUESTIONS: Final = "Questionnaire.code"
QUESTIONS_STATUS: Final = "Questionnaire.status"
ACTIVE: Final = "active"
# Index rows lead to live resources only.
CARRIERS: Final = (
    "SELECT resource.key, type, id, version, updated_ms, survivor, body, change"
    " FROM token_index AS i JOIN resource ON resource.key=i.key"
    " WHERE i.tenant=? AND i.parameter=? AND i.code=? AND i.system=? ORDER BY i.key"
)
# Without a look at what it asks, which may be long.
QUESTIONNAIRE: Final = (
    "SELECT id FROM token_index AS i JOIN resource ON resource.key=i.key"
    " WHERE i.tenant=? AND i.parameter=? AND i.code=? AND i.system=? AND EXISTS"
    " (SELECT 1 FROM token_index AS s WHERE s.key=i.key AND s.parameter=? AND s.code=?) ORDER BY i.key LIMIT 1"
)
ANY: Final = "SELECT 1 FROM token_index WHERE tenant=? AND parameter=? AND system=? LIMIT 1"


class Test(NamedTuple):
    """A test that may be ordered; `questionnaire` is the id of the one that asks its questions, '' for none."""

    code: str
    title: str
    questionnaire: str


def system_of(laboratory: str) -> str:
    """Return the code system of a laboratory's tests; `laboratory` is the id of its Organization."""
    return SYSTEM + laboratory


def configured(transaction: Transaction, laboratory: str) -> bool:
    """Say whether any test of a laboratory is known, one that is not orderable too."""
    arguments = (transaction.tenant, TESTS, short(system_of(laboratory)))
    return transaction.connection.execute(ANY, arguments).fetchone() is not None


def find_test(transaction: Transaction, laboratory: str, code: str) -> Test | None:
    """Return the test that a laboratory's code names; None where it is unknown, or not active."""
    for stored in carriers(transaction, TESTS, laboratory, code):
        definition = stored.resource()
        if definition.get("status") == ACTIVE:
            return Test(code, title_of(definition, laboratory, code), _questionnaire(transaction, laboratory, code))
    return None


def withdrawn(transaction: Transaction, laboratory: str, code: str) -> bool:
    """Say whether a code is that of a test which is known and may not be ordered: it is retired, or a draft still."""
    known = any(True for _ in carriers(transaction, TESTS, laboratory, code))
    return known and find_test(transaction, laboratory, code) is None


def _questionnaire(transaction: Transaction, laboratory: str, code: str) -> str:
    named = (transaction.tenant, QUESTIONS, short(code), short(system_of(laboratory)))
    row = transaction.connection.execute(QUESTIONNAIRE, (*named, QUESTIONS_STATUS, ACTIVE)).fetchone()
    return row[0] if row is not None else ""


def carriers(transaction: Transaction, parameter: str, laboratory: str, code: str) -> Iterator[StoredVersion]:
    """Yield the live resources that carry the code of a test, oldest first; `parameter` names their index rows."""
    arguments = (transaction.tenant, parameter, short(code), short(system_of(laboratory)))
    for row in transaction.connection.execute(CARRIERS, arguments).fetchall():
        yield StoredVersion(*row)


def title_of(definition: JsonObject, laboratory: str, code: str) -> str:
    """Return how people call a test: its title, else what its coding shows, else its code."""
    codings = definition.get("code", {}).get("coding", ())
    own = (coding for coding in codings if (coding.get("system"), coding.get("code")) == (system_of(laboratory), code))
    shown = next((one["display"] for one in own if one.get("display")), code)
    return str(definition.get("title") or shown)
