"""AuditEvent read and searched: by a system's own token with a scope that names AuditEvent, within its tenant."""

import asyncio
from collections.abc import Callable
from typing import Final

from engine.fhir.schema import FhirVersion
from engine.interchange.audit.event import OUTCOMES, audit_event
from engine.interchange.exact import write_json
from engine.interchange.exchange import Access, Answer, Interaction, Level, Request
from engine.interchange.oauth.role import Action
from engine.interchange.outcome import Category, RefusedError, refuse, repeatable
from engine.interchange.search.bundle import address_with, page_pairs, write_searchset
from engine.interchange.search.criterion import Kind
from engine.interchange.search.date import span
from engine.interchange.search.page import Page, Paging, take_page
from engine.interchange.service import Service
from engine.interchange.store.access import BY_SEQ, Logged, read_row
from engine.sqlite import Connection

NAME: Final = "AuditEvent"
PAGING: Final = Paging()
# The search parameters, by R4's names.
PARAMETERS: Final = {
    "_id": Kind.ID,
    "address": Kind.STRING,
    "altid": Kind.TOKEN,
    "date": Kind.DATE,
    "outcome": Kind.TOKEN,
    "patient": Kind.REFERENCE,
    "subtype": Kind.TOKEN,
}
SELECTED: Final = (
    "at_ms, tenant, client, login, role, address, request, base, interaction, type, id, patients, outcome, status,"
    " seq, hash"
)
COMPARED: Final = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}
MOST_DIGITS: Final = 18

Test = tuple[str, tuple[str | int, ...]]


async def read(service: Service, request: Request) -> Answer:
    """Answer GET /AuditEvent/{id}: the row of this number in the tenant's log; 404 for none."""
    row = None
    if request.id.isdigit() and len(request.id) <= MOST_DIGITS:
        asked = (request.principal.tenant, int(request.id))
        found = service.store.read(asked[0], lambda one: one.connection.execute(BY_SEQ, asked).fetchone())
        row = read_row(found) if found else None
    if row is None:
        raise refuse(Category.NOT_FOUND, f"There is no {NAME} of this id.", location="http.id")
    return Answer(200, write_json(audit_event(row, service.base(FhirVersion.R4))), (("etag", 'W/"1"'),))


async def search(service: Service, request: Request) -> Answer:
    """Answer GET /AuditEvent: a searchset Bundle, oldest first, of the tenant's log."""
    page, criteria = take_page(request.query, PAGING)
    names = [name for name, _ in criteria]
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise _wrong(repeated, "is given more than once")
    tests = [("tenant=?", (request.principal.tenant,)), *(_test(name, value) for name, value in criteria)]
    tenant = request.principal.tenant
    total, rows = await asyncio.to_thread(service.store.read, tenant, lambda one: _find(one.connection, tests, page))
    address = f"{request.base}/{NAME}"
    observer = service.base(FhirVersion.R4)
    resources = [(f"{address}/{row.seq}", write_json(audit_event(row, observer))) for row in rows]
    links = [("self", address_with(address, page_pairs(criteria, page)))]
    if page.offset + len(rows) < total and rows:
        following = Page(page.count, page.offset + len(rows), form=page.form)
        links.append(("next", address_with(address, page_pairs(criteria, following))))
    return Answer(200, write_searchset(service.new_id(), links, total, resources))


def _find(connection: Connection, tests: list[Test], page: Page) -> tuple[int, list[Logged]]:
    where = " AND ".join(sql for sql, _ in tests)
    given = tuple(value for _, values in tests for value in values)
    total = connection.execute(f"SELECT count(*) FROM access WHERE {where}", given).fetchone()[0]  # noqa: S608 - no value
    sql = f"SELECT {SELECTED} FROM access WHERE {where} ORDER BY seq LIMIT ? OFFSET ?"  # noqa: S608 - no value
    return total, [read_row(row) for row in connection.execute(sql, (*given, page.count, page.offset))]


def _test(name: str, value: str) -> Test:
    if name not in TESTS:
        text = f"The parameter {repeatable(name)} is not supported here."
        raise refuse(Category.UNSUPPORTED, text, location=f"http.{repeatable(name)}")
    return TESTS[name](value)


def _date(value: str) -> Test:
    prefix = value[:2] if value[:2].isalpha() else "eq"
    covered = span(value[2:] if value[:2].isalpha() else value)
    if covered is None or prefix not in {*COMPARED, "eq"}:
        raise _wrong("date", "is no date with one of the prefixes eq, ge, gt, le and lt")
    if prefix == "eq":
        return "at_ms BETWEEN ? AND ?", covered
    return f"at_ms {COMPARED[prefix]} ?", (covered[0] if prefix in {"ge", "lt"} else covered[1],)


def _patient(value: str) -> Test:
    return (
        "seq IN (SELECT seq FROM access_patient WHERE tenant=access.tenant AND patient=?)",
        (value.removeprefix("Patient/"),),
    )


def _id(value: str) -> Test:
    if not (value.isdigit() and len(value) <= MOST_DIGITS):
        return "seq=?", (0,)
    return "seq=?", (int(value),)


def _outcome(value: str) -> Test:
    named = {code: outcome for outcome, code in OUTCOMES.items()}
    return "outcome=?", (named.get(value.rpartition("|")[2], ""),)


TESTS: Final[dict[str, Callable[[str], Test]]] = {
    "_id": _id,
    "address": lambda value: ("address=?", (value,)),
    "altid": lambda value: ("(client=? OR login=?)", (value, value)),
    "date": _date,
    "outcome": _outcome,
    "patient": _patient,
    "subtype": lambda value: ("interaction=?", (value.rpartition("|")[2],)),
}


def _wrong(name: str, text: str) -> RefusedError:
    return refuse(Category.BAD_VALUE, f"{name} {text}.", location=f"http.{name}")


INTERACTIONS: Final = (
    Interaction(NAME, "read", Level.INSTANCE, "GET", Access.READ, Action.AUDIT, read, versions=(FhirVersion.R4,)),
    Interaction(NAME, "search-type", Level.TYPE, "GET", Access.READ, Action.AUDIT, search, versions=(FhirVersion.R4,)),
)
