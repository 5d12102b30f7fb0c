"""Patient create, and conditional create: look-up and insert are one step that no other write comes between."""

from urllib.parse import parse_qsl

from engine.interchange.exchange import Access, Answer, Interaction, Level, Request
from engine.interchange.oauth.role import Action
from engine.interchange.outcome import Category, RefusedError, refuse
from engine.interchange.patient.index import CONDITIONAL
from engine.interchange.patient.write import creator, read_draft
from engine.interchange.reply import written_answer
from engine.interchange.search.criterion import Search
from engine.interchange.search.parse import parse_search
from engine.interchange.service import Service
from engine.interchange.store.query import find
from engine.interchange.store.transaction import Stored, Transaction


async def create(service: Service, request: Request) -> Answer:
    """Answer POST /Patient: 201; with If-None-Exist 200 for one match and 412 for several."""
    condition = parse_condition(request.headers.get("if-none-exist"))
    draft = read_draft(service, request)
    insert = creator(service, request, draft, service.new_id())

    def work(transaction: Transaction) -> tuple[int, Stored]:
        match = _match(transaction, condition) if condition else None
        return (200, match) if match else (201, insert(transaction))

    status, stored = await service.store.write(request.principal.tenant, work)
    return written_answer(status, stored, request, location=True)


def parse_condition(header: str | None) -> Search | None:
    """Return the search of an If-None-Exist header, None where there is none; only some parameters are allowed."""
    if header is None:
        return None
    pairs = parse_qsl(header.strip().removeprefix("?"), keep_blank_values=True)
    if not pairs:
        raise refuse(Category.BAD_VALUE, "If-None-Exist names no criterion.", location="http.If-None-Exist")
    if any(name.partition(":")[0] not in CONDITIONAL for name, _ in pairs):
        text = f"If-None-Exist supports only {', '.join(CONDITIONAL)}."
        raise refuse(Category.BAD_VALUE, text, location="http.If-None-Exist")
    try:
        return parse_search("Patient", CONDITIONAL, pairs)
    except RefusedError as refusal:
        raise RefusedError(Category.BAD_VALUE, refusal.issues) from refusal


def _match(transaction: Transaction, condition: Search) -> Stored | None:
    found = find(transaction, condition, count=2)
    if len(found.records) > 1:
        raise refuse(Category.SEVERAL_MATCHES, "If-None-Exist matches several patients.", location="http.If-None-Exist")
    return found.records[0] if found.records else None


INTERACTION = Interaction("Patient", "create", Level.TYPE, "POST", Access.WRITE, Action.PATIENT, create)
