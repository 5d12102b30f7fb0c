"""AuditEvent (R4) made of rows of the access log, read and searched by a system's own token within its tenant."""

import asyncio
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Final

from engine.database.connection import Connection
from engine.fhir.json import JsonObject
from engine.fhir.primitives import ID
from engine.fhir.schema import FhirVersion
from engine.interchange.core.audit.entry import ENTRY
from engine.interchange.core.exchange import FhirRequest, HttpAnswer, Interaction, InteractionLevel, RequiredAccess
from engine.interchange.core.service import Service
from engine.interchange.kernel.exact import write_json
from engine.interchange.kernel.outcome import Category, RefusedError, refuse, unsupported
from engine.interchange.store.access import BY_SEQ, COLUMNS, AccessRow, Logged, read_row
from engine.interchange.store.search.bundle import address_with, page_pairs, write_searchset
from engine.interchange.store.search.criterion import ParameterKind
from engine.interchange.store.search.date import span
from engine.interchange.store.search.page import FORMAT, TOTALS, Paging, Pairs, ResultPage, take_page
from engine.interchange.store.transaction import EPOCH
from engine.interchange.tokens.role import RoleRule

DICOM: Final = "http://dicom.nema.org/resources/ontology/DCM"
EVENT_TYPE: Final = {
    "system": "http://terminology.hl7.org/CodeSystem/audit-event-type",
    "code": "rest",
    "display": "RESTful Operation",
}
SUBTYPES: Final = "http://hl7.org/fhir/restful-interaction"
ENTITY_TYPES: Final = "http://terminology.hl7.org/CodeSystem/audit-entity-type"
ENTITY_ROLES: Final = "http://terminology.hl7.org/CodeSystem/object-role"
PERSON: Final = {"system": ENTITY_TYPES, "code": "1", "display": "Person"}
RECORD: Final = {"system": ENTITY_TYPES, "code": "2", "display": "System Object"}
SUBJECT: Final = {"system": ENTITY_ROLES, "code": "1", "display": "Patient"}
OBJECT: Final = {"system": ENTITY_ROLES, "code": "3", "display": "Report"}
# Action by interaction; others are Execute.
ACTIONS: Final = {
    "read": "R",
    "read-temporary": "R",
    "vread": "R",
    "history-instance": "R",
    "history-type": "R",
    "search-type": "E",
    "create": "C",
    "update": "U",
    "patch": "U",
    "delete": "D",
}
# AuditEvent.outcome: success, minor failure (client), serious failure (service).
OUTCOMES: Final = {"done": "0", "refused": "4", "failed": "8"}
IP_ADDRESS: Final = "2"


def audit_event(row: Logged, observer: str) -> JsonObject:
    """Return a row as AuditEvent; `observer` is the address of the service."""
    access = row.access
    moment = (EPOCH + timedelta(milliseconds=access.at_ms)).isoformat(timespec="milliseconds")
    return {
        "resourceType": "AuditEvent",
        "id": str(row.seq),
        "meta": {"versionId": "1", "lastUpdated": moment},
        "type": EVENT_TYPE,
        "subtype": [{"system": SUBTYPES, "code": access.interaction}],
        "action": ACTIONS.get(access.interaction, "E"),
        "recorded": moment,
        "outcome": OUTCOMES[access.outcome],
        "agent": _agents(access),
        "source": {"observer": {"display": observer}},
        "entity": [_subject(access), *_patients(access)],
    }


def _agents(access: AccessRow) -> list[JsonObject]:
    network = {"network": {"address": access.address, "type": IP_ADDRESS}} if access.address else {}
    role = {"role": [{"text": access.role}]} if access.role else {}
    client = {"altId": access.client, "requestor": not access.login, **({} if access.login else role), **network}
    if not access.login:
        return [client]
    return [{"altId": access.login, "requestor": True, **role, **network}, client]


def _subject(access: AccessRow) -> JsonObject:
    """Return AuditEvent.entity of the request: resource or type, with base, request id, Bundle entry and status."""
    name = f"{access.type}/{access.id}" if access.id else access.type
    request, _, number = access.request.partition(ENTRY)
    details = {
        "base": access.base,
        "request": request,
        "entry": f"Bundle.entry[{number}]" if number else "",
        "status": str(access.status) if access.status else "",
    }
    detail = [{"type": key, "valueString": value} for key, value in details.items() if value]
    return {"name": name, "type": RECORD, "role": OBJECT, **({"detail": detail} if detail else {})}


def _patients(access: AccessRow) -> list[JsonObject]:
    return [
        {"what": {"reference": f"Patient/{one}"}, "type": PERSON, "role": SUBJECT} for one in access.patients.split()
    ]


NAME: Final = "AuditEvent"
PATIENT: Final = re.compile(rf"(?:Patient/)?(?:{ID.pattern})")
PAGING: Final = Paging()
# The search parameters, by R4's names.
PARAMETERS: Final = {
    "_id": ParameterKind.ID,
    "address": ParameterKind.STRING,
    "altid": ParameterKind.TOKEN,
    "date": ParameterKind.DATE,
    "outcome": ParameterKind.TOKEN,
    "patient": ParameterKind.REFERENCE,
    "subtype": ParameterKind.TOKEN,
}
COMPARED: Final = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}
MOST_DIGITS: Final = 18

# The log, and its rows of one patient: these are few, so that the query starts with them.
LOG: Final = "access"
TOUCHED: Final = "(SELECT seq AS found FROM access_patient WHERE tenant=? AND patient=?) AS touched CROSS JOIN access"
# Column names are constants of this module; values are always arguments.
PAGE: Final = "SELECT {columns} FROM {log} WHERE {where}"
COUNT: Final = "(SELECT count(*) FROM {log} WHERE {where})"
DONE: Final = "'done'"
ORDER: Final = " ORDER BY at_ms, seq LIMIT ? OFFSET ?"

Values = tuple[str | int, ...]
Test = tuple[str, Values]
Criteria = tuple[tuple[str, str], ...]


async def read(service: Service, request: FhirRequest) -> HttpAnswer:
    """Answer GET /AuditEvent/{id}: the row of this number in the tenant's log; 404 for none."""
    _check(request.query, FORMAT)
    row = None
    if request.id.isdigit() and len(request.id) <= MOST_DIGITS:
        asked = (request.principal.tenant, int(request.id))
        found = service.store.read(asked[0], lambda one: one.connection.execute(BY_SEQ, asked).fetchone())
        row = read_row(found) if found else None
    if row is None:
        raise refuse(Category.NOT_FOUND, f"There is no {NAME} of this id.", location="http.id")
    return HttpAnswer(200, write_json(audit_event(row, service.base(FhirVersion.R4))), (("etag", 'W/"1"'),))


async def search(service: Service, request: FhirRequest) -> HttpAnswer:
    """Answer GET /AuditEvent: a searchset Bundle, oldest first, of the tenant's log."""
    page, criteria = take_page(request.query, PAGING)
    _check(page.form, FORMAT | {"_total"})
    names = [name for name, _ in criteria]
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise _wrong(repeated, "is given more than once")
    tenant = request.principal.tenant
    page_of, total_of = page_statement(tenant, criteria), total_statement(tenant, criteria)
    total, rows = await asyncio.to_thread(
        service.store.read, tenant, lambda one: _find(one.connection, page_of, total_of, page)
    )
    address = f"{request.base}/{NAME}"
    observer = service.base(FhirVersion.R4)
    resources = [(f"{address}/{row.seq}", write_json(audit_event(row, observer))) for row in rows]
    links = [("self", address_with(address, page_pairs(criteria, page)))]
    if page.offset + len(rows) < total and rows:
        following = ResultPage(page.count, page.offset + len(rows), form=page.form)
        links.append(("next", address_with(address, page_pairs(criteria, following))))
    return HttpAnswer(200, write_searchset(service.new_id(), links, total, resources))


def page_statement(tenant: str, criteria: Criteria) -> Test:
    """Return the query of a page, oldest first, and its arguments; LIMIT and OFFSET are appended to these."""
    log, where = _where(tenant, criteria)
    parts = [PAGE.format(columns=COLUMNS, log=log, where=sql) for sql, _ in where]
    return " UNION ALL ".join(parts) + ORDER, tuple(value for _, values in where for value in values)


def _check(pairs: Pairs, taken: frozenset[str]) -> None:
    """Refuse parameters that the interaction does not support: ignoring them would change the result."""
    for name, value in pairs:
        if name not in taken:
            raise unsupported(name)
        if name == "_total" and value not in TOTALS:
            raise _wrong(name, f"is one of {', '.join(TOTALS)}")


def total_statement(tenant: str, criteria: Criteria) -> Test:
    """Return the query of the number of rows, and its arguments."""
    log, where = _where(tenant, criteria)
    parts = [COUNT.format(log=log, where=sql) for sql, _ in where]
    return f"SELECT {' + '.join(parts)}", tuple(value for _, values in where for value in values)


def _where(tenant: str, criteria: Criteria) -> tuple[str, list[Test]]:
    """Return the table and alternative, disjoint conditions: a row matches if it meets one of them."""
    given = dict(criteria)
    patient = given.pop("patient", None)
    if patient is not None and PATIENT.fullmatch(patient) is None:
        raise _wrong("patient", "is neither an id nor Patient/ and an id")
    log = LOG if patient is None else TOUCHED
    driven: Values = () if patient is None else (tenant, patient.removeprefix("Patient/"))
    own: Test = ("tenant=?" if patient is None else "seq=found AND tenant=?", (tenant,))
    alternatives: list[list[Test]] = [[own]]
    for name, value in given.items():
        if name not in TESTS:
            raise unsupported(name)
        alternatives = [[*alternative, test] for alternative in alternatives for test in TESTS[name](value)]
    return log, [
        (" AND ".join(sql for sql, _ in tests), (*driven, *(value for _, values in tests for value in values)))
        for tests in alternatives
    ]


def _find(connection: Connection, page_of: Test, total_of: Test, page: ResultPage) -> tuple[int, list[Logged]]:
    sql, values = total_of
    total = connection.execute(sql, values).fetchone()[0]
    sql, values = page_of
    return total, [read_row(row) for row in connection.execute(sql, (*values, page.count, page.offset))]


def _date(value: str) -> tuple[Test]:
    prefix = value[:2] if value[:2].isalpha() else "eq"
    covered = span(value[2:] if value[:2].isalpha() else value)
    if covered is None or prefix not in {*COMPARED, "eq"}:
        raise _wrong("date", "is no date with one of the prefixes eq, ge, gt, le and lt")
    if prefix == "eq":
        return (("at_ms BETWEEN ? AND ?", covered),)
    return ((f"at_ms {COMPARED[prefix]} ?", (covered[0] if prefix in {"ge", "lt"} else covered[1],)),)


def _id(value: str) -> tuple[Test]:
    if ID.fullmatch(value) is None:
        raise _wrong("_id", "is no id of an AuditEvent")
    return (("seq=?", (int(value) if value.isdigit() and len(value) <= MOST_DIGITS else 0,)),)


def _outcome(value: str) -> tuple[Test]:
    """Failures are rare and have their own index."""
    wanted = {code: outcome for outcome, code in OUTCOMES.items()}.get(value.rpartition("|")[2], "")
    return ((f"outcome=?{' AND outcome<>' + DONE if wanted != 'done' else ''}", (wanted,)),)


def _altid(value: str) -> tuple[Test, Test]:
    return ("client=?", (value,)), ("login=? AND login<>'' AND client<>?", (value, value))


TESTS: Final[dict[str, Callable[[str], tuple[Test, ...]]]] = {
    "_id": _id,
    "address": lambda value: (("address=?", (value,)),),
    "altid": _altid,
    "date": _date,
    "outcome": _outcome,
    "subtype": lambda value: (("interaction=?", (value.rpartition("|")[2],)),),
}


def _wrong(name: str, text: str) -> RefusedError:
    return refuse(Category.BAD_VALUE, f"{name} {text}.", location=f"http.{name}")


INTERACTIONS: Final = (
    Interaction(
        NAME,
        "read",
        InteractionLevel.INSTANCE,
        "GET",
        RequiredAccess.READ,
        RoleRule.AUDIT,
        read,
        versions=(FhirVersion.R4,),
    ),
    Interaction(
        NAME,
        "search-type",
        InteractionLevel.TYPE,
        "GET",
        RequiredAccess.READ,
        RoleRule.AUDIT,
        search,
        versions=(FhirVersion.R4,),
    ),
)
