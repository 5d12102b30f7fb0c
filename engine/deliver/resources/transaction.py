"""Writes that go as one `transaction` Bundle (FHIR, http.html

What the answer does not show is not believed: each entry has to be answered in its place, as done, with the resource
that was written, or one that is read back.

It is carried out twice: on a draft, which shows what there is to write, then with what the server has answered to that.
So a transaction ends exactly as its requests would have ended one by one, and whatever goes wrong with it is left to
them: then everything is read anew, for nobody knows what such a server has done. Where there is at most one write, what
the draft has shown of all else holds, and only the step that writes is carried out again.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

import orjson

from engine.deliver.stored import Body, id_of, involved
from engine.deliver.wire.client import ServerResponse
from engine.deliver.wire.exchange import Exchange
from engine.deliver.wire.recording_server import RecordedWrite, RecordingServer
from engine.deliver.wire.response_log import name_of
from engine.errors import (
    AmbiguousDeliveryError,
    DeliveryError,
    DestinationError,
    HeldDeliveryError,
    PermanentDeliveryError,
)
from engine.fhir.patient import number_of
from engine.fhir.patient_compartment import asked_of, patients_of
from engine.fhir.plan import Interaction, Keep

IGNORED: Final = "if-none-exist-ignored"
UNBELIEVED: Final = "transaction-unclear"
DANGLING: Final = "dangling-references"
# Creates on condition after which a search is made, until the server was seen to honour a condition.
WATCHED: Final = 10
_WHOLE: Final = (("Prefer", "return=representation"),)
_NAMES: Final = {"If-None-Exist": "ifNoneExist", "If-Match": "ifMatch"}
_DONE: Final = frozenset({"200", "201"})
# Somebody else has written in between: this says nothing of the server.
_STALE: Final = frozenset({409, 412})

Writes = Mapping[str, RecordedWrite]


class TransactionRefusal(NamedTuple):
    """A transaction of which nothing can be relied on; `odd`: it failed though nobody else wrote in between."""

    odd: bool


async def transact(exchange: Exchange, writes: Writes) -> Sequence[ServerResponse] | TransactionRefusal:
    """Send writes as one transaction and return what came of each, in their order, or that it was refused.

    Raises the errors of a delivery, AmbiguousDeliveryError where nobody knows whether it was applied, and
    HeldDeliveryError `duplicate-after-create`.
    """
    try:
        answer = await exchange.write("POST", "", bundle_of(exchange.server.base, writes), _WHOLE)
    except (PermanentDeliveryError, DestinationError) as error:
        if not error.status:
            raise
        return TransactionRefusal(odd=error.status not in _STALE)
    except AmbiguousDeliveryError as error:
        if error.status:
            exchange.server.transaction_failed()
        raise
    answers = await _believed(exchange, list(writes.values()), answer.json)
    if answers is None:
        exchange.note(UNBELIEVED)
        return TransactionRefusal(odd=True)
    linked = await _linked(exchange, writes, answers)
    if linked is None:
        return TransactionRefusal(odd=True)
    exchange.server.transactions_failed = 0
    for write, written in zip(writes.values(), linked, strict=True):
        await _watch(exchange, write, written)
    return linked


def bundle_of(base: str, writes: Writes) -> bytes:
    """Return the Bundle of some writes; what is created in it is referred to by `urn:uuid:`."""
    entries = [_entry(base, reference, write) for reference, write in writes.items()]
    content = orjson.dumps({"resourceType": "Bundle", "type": "transaction", "entry": entries})
    for reference, write in writes.items():
        if write.method == "POST":
            content = content.replace(f'"{reference}"'.encode(), f'"{_urn(reference)}"'.encode())
    return content


def _urn(reference: str) -> str:
    return f"urn:uuid:{reference.partition('/')[2]}"


def _entry(base: str, reference: str, write: RecordedWrite) -> Body:
    conditions = {_NAMES[name]: value for name, value in write.headers if name in _NAMES}
    return {
        "fullUrl": _urn(reference) if write.method == "POST" else f"{base}/{reference}",
        "resource": write.body,
        "request": {"method": write.method, "url": write.path, **conditions},
    }


async def _believed(exchange: Exchange, writes: Sequence[RecordedWrite], bundle: Any) -> list[ServerResponse] | None:
    """Return what came of each write; None where the Bundle does not show that all were done."""
    entries = bundle.get("entry") if isinstance(bundle, dict) and bundle.get("type") == "transaction-response" else None
    if not isinstance(entries, list) or len(entries) != len(writes):
        return None
    answers = []
    for write, entry in zip(writes, entries, strict=True):
        answer = await _shown(exchange, write, entry)
        if answer is None:
            return None
        answers.append(answer)
    return answers


async def _shown(exchange: Exchange, write: RecordedWrite, entry: Any) -> ServerResponse | None:
    """Return what came of one write; None where it is not shown to be done, and to this resource."""
    response = entry.get("response") if isinstance(entry, dict) else None
    status = str(response.get("status"))[:3] if isinstance(response, dict) else ""
    if not isinstance(response, dict) or status not in _DONE:
        return None
    place = str(response.get("location") or "")
    body = entry.get("resource")
    if not isinstance(body, dict) or body.get("resourceType") == "OperationOutcome":
        logical_id = id_of(f"/{place}", write.type_) or write.path.partition("/")[2]
        if not logical_id and status == "200":
            logical_id = await _matched(exchange, write)
        body = (await exchange.look(logical_id, write.type_)).json if logical_id else None
    if not isinstance(body, dict) or body.get("resourceType") != write.type_ or not _is_meant(write, body):
        return None
    headers = {"etag": str(response.get("etag") or ""), "location": place}
    return ServerResponse(int(status), headers, b"", body, 0.0)


async def _matched(exchange: Exchange, write: RecordedWrite) -> str:
    """Return the id of what a condition matched, where the answer does not say; empty unless it is one resource."""
    found = await exchange.search(_query(write), write.type_)
    return found[0].logical_id if len(found) == 1 else ""


def _query(write: RecordedWrite) -> str:
    """Return the condition of a create as a search, of its patient where it has one."""
    holders = [asked_of(write.type_, patient) for patient in sorted(patients_of(write.body))]
    return f"{''.join(holders[:1])}{dict(write.headers)['If-None-Exist']}"


def _is_meant(write: RecordedWrite, body: Body) -> bool:
    """Say whether a resource is the one that was updated, or carries a number of the one that was created."""
    if write.method == "PUT":
        return f"{write.type_}/{body.get('id')}" == write.path
    return not _numbers(write.body).isdisjoint(_numbers(body))


def _numbers(body: Body) -> set[Any]:
    return {number_of(item) for item in body.get("identifier") or () if isinstance(item, dict)}


async def _linked(
    exchange: Exchange, writes: Writes, answers: Sequence[ServerResponse]
) -> Sequence[ServerResponse] | None:
    """Return what came of each write, once each names what was made or matched; None where that cannot be written.

    A server may leave a reference to what it would have made, had no condition matched: that is written anew, and it
    is sent no transactions any more.
    """
    ids = {
        reference: f"{write.type_}/{answer.json.get('id')}"
        for (reference, write), answer in zip(writes.items(), answers, strict=True)
        if write.method == "POST"
    }
    linked = []
    for write, answer in zip(writes.values(), answers, strict=True):
        body, matched = _led(write.body, ids), write.method == "POST" and answer.status == 200
        if matched or not _is_elsewhere(body, answer.json):
            linked.append(answer)
            continue
        exchange.server.refrain(DANGLING)
        exchange.note(DANGLING)
        made = exchange.patient_of(answer, write.type_)
        whole = {**body, "id": made.logical_id}
        mended = await exchange.write_patient("PUT", made.reference, whole, made.if_match, _STALE)
        if mended.status >= 300:
            return None
        linked.append(ServerResponse(answer.status, mended.headers, b"", mended.json, 0.0))
    return linked


def _is_elsewhere(body: Body, shown: Body) -> bool:
    """Say whether a resource names something else than was sent."""
    sent = set(_named(body))
    there = {"/".join(one.partition("/_history/")[0].split("/")[-2:]) for one in _named(shown)}
    return bool(sent - there and there - sent)


def _led(value: Any, ids: Mapping[str, str]) -> Any:
    """Return a resource with each provisional reference as it was answered."""
    if isinstance(value, dict):
        return {
            key: ids.get(part, part) if key == "reference" and isinstance(part, str) else _led(part, ids)
            for key, part in value.items()
        }
    return [_led(part, ids) for part in value] if isinstance(value, list) else value


def _named(value: Any) -> Iterator[str]:
    """Yield each reference in a resource."""
    if isinstance(value, dict):
        if isinstance(own := value.get("reference"), str):
            yield own
        for part in value.values():
            yield from _named(part)
    elif isinstance(value, list):
        for part in value:
            yield from _named(part)


async def _watch(exchange: Exchange, write: RecordedWrite, answer: ServerResponse) -> None:
    """Search for what was created on condition, as long as it is not known whether the server honours that.

    A server that does not is sent no transactions any more. Of places and people one may stand twice; what is a
    patient's may not: HeldDeliveryError.
    """
    server = exchange.server
    if write.method != "POST" or server.creates_watched >= WATCHED:
        return
    if answer.status == 200:
        server.creates_watched = WATCHED
        return
    server.creates_watched += 1
    found = await exchange.search(_query(write), write.type_)
    if all(one.logical_id == answer.json.get("id") for one in found):
        return
    server.refrain(IGNORED)
    exchange.note(IGNORED)
    if patients_of(write.body):
        raise HeldDeliveryError(
            "duplicate-after-create", involved=tuple(involved("has the same number", one) for one in found)
        )


MOST_WRITES: Final = 200


class CarryOut(Protocol):
    """Carries out steps one by one and returns how each ended."""

    async def __call__(self, exchange: Exchange, steps: Sequence[Interaction], *, remembered: bool) -> list[str]:
        """Start from what the server says now where `remembered` is False."""


@dataclass(slots=True)
class _Draft:
    """Steps carried out on a draft: `known` is what it came to know, `before` and `after` the first step that wrote.

    `whole` False: it broke off.
    """

    server: RecordingServer
    known: Exchange
    before: Exchange
    after: Exchange
    endings: list[str]
    writing: int = -1
    whole: bool = True

    @property
    def stands_alone(self) -> bool:
        """Whether there is at most one write, and nothing that came after it is about what is written."""
        if self.server.count > 1:
            return False
        return not any(self.known.mentions(reference, since=self.after) for reference in self.server.writes)


async def carry_out_bundled(
    exchange: Exchange, steps: Sequence[Interaction], carry_out: CarryOut, *, remembered: bool = True
) -> list[str]:
    """Carry out steps, in one transaction bundle where possible, and return how each ended.

    `carry_out` does so one by one; `remembered` as of `upsert_resource`. Raises the errors of a delivery.
    """
    if not exchange.bundles or not _is_worth_a_draft(exchange, steps):
        return await carry_out(exchange, steps, remembered=remembered)
    draft = await _drafted(exchange, steps, carry_out, remembered=remembered)
    server = draft.server
    try:
        if draft.whole and draft.stands_alone:
            return await _adopted(exchange, draft, steps, carry_out, remembered=remembered)
        most = min(MOST_WRITES, exchange.server.settings.behaviour.bundle_entries)
        if draft.whole and 1 < len(server.writes) <= most:
            answers = await transact(exchange, server.writes)
            if isinstance(answers, TransactionRefusal):
                return await _one_by_one(exchange, steps, carry_out, answers)
            for write, answer in zip(server.writes.values(), answers, strict=True):
                server.response_log.keep(name_of(write.method, f"{server.base}/{write.path}", write.headers), answer)
            # What was remembered then is what these answers are about, whatever has become of the caches meanwhile.
            server.response_log.recalled = server.recalled()
        exchange.response_log = server.response_log
        return await carry_out(exchange, steps, remembered=remembered)
    finally:
        server.response_log.clear()


async def _drafted(
    exchange: Exchange, steps: Sequence[Interaction], carry_out: CarryOut, *, remembered: bool
) -> _Draft:
    """Carry out steps on a draft, as far as that goes."""
    server = RecordingServer(exchange.server)
    known = exchange.draft(server)
    draft = _Draft(server, known, known, known, [])
    for number, step in enumerate(steps):
        if not server.count:
            draft.before = known.draft(server)
        try:
            draft.endings += await carry_out(known, (step,), remembered=remembered)
        except DeliveryError:
            draft.whole = False
            break
        if server.count and draft.writing < 0:
            draft.after, draft.writing = known.draft(server), number
    return draft


async def _adopted(
    exchange: Exchange, draft: _Draft, steps: Sequence[Interaction], carry_out: CarryOut, *, remembered: bool
) -> list[str]:
    """Take over what a draft has shown, and carry out the one step that writes, if there is one."""
    draft.server.keep_caches()
    if draft.writing < 0:
        exchange.adopt(draft.known)
        return draft.endings
    exchange.adopt(draft.before)
    exchange.response_log = draft.server.response_log
    (draft.endings[draft.writing],) = await carry_out(exchange, (steps[draft.writing],), remembered=remembered)
    exchange.learn(draft.known, since=draft.after)
    return draft.endings


async def _one_by_one(
    exchange: Exchange, steps: Sequence[Interaction], carry_out: CarryOut, refusal: TransactionRefusal
) -> list[str]:
    """Carry out steps request by request after a refusal; where that works, it was the transaction that failed."""
    endings = await carry_out(exchange, steps, remembered=False)
    if refusal.odd:
        exchange.server.transaction_failed()
    return endings


def _is_worth_a_draft(exchange: Exchange, steps: Sequence[Interaction]) -> bool:
    """Say whether there may be several writes: of what is never overwritten, only what is not known yet is written."""
    return sum(isinstance(step, Keep) and _may_be_written(exchange, step) for step in steps) > 1


def _may_be_written(exchange: Exchange, step: Keep) -> bool:
    record = step.record
    if step.overwrite:
        return not step.more
    return exchange.server.cache_of(record.type).find(record.identities[:1]) is None
