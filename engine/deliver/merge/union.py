"""Making one record of two: by the server's `$merge` or by links, and the visits and links that follow.

A server's `$merge` may re-point what referred to the source, and never gives the survivor the source's own links. The
merged record keeps its links: they are its history.

Only visits of which a feed of this engine has written are touched; that others were left is noted.
"""

import re
from typing import Any, Final
from urllib.parse import quote

import orjson

from engine import fault
from engine.deliver.patient.absorbed import head_of
from engine.deliver.patient.resolve import merged_elsewhere
from engine.deliver.stored import Body, ServerResource
from engine.deliver.verdict import WrittenVersion
from engine.deliver.wire.exchange import Exchange
from engine.deliver.wire.failure import unclear
from engine.deliver.wire.revise import revise
from engine.errors import HeldDeliveryError, PermanentDeliveryError
from engine.fhir.event import moment_of
from engine.fhir.patient import links, parted, replaced_by, seen_also
from engine.fhir.patient_compartment import held_by

SEE_ALSO = "seealso"


async def relink(exchange: Exchange, gone: ServerResource, survivor: ServerResource) -> None:
    """Let the links of a record that was merged away be its survivor's; nothing is written where they are.

    The two themselves are one record now, and no longer linked. A record that says nothing of the one that is gone is
    left as it is.
    """
    named = [link for link in links(gone.body, SEE_ALSO) if link != survivor.logical_id]
    if not named and gone.logical_id not in links(survivor.body, SEE_ALSO):
        return
    others = [other for one in named if (other := await _head(exchange, one, survivor)) is not None]
    fresh = await exchange.read(survivor.logical_id)
    if fresh is not None:
        heads = tuple(other.logical_id for other in others)
        await revise(exchange, fresh, lambda body: _seen_also_by(parted(body, gone.logical_id), *heads))
    for other in others:
        fault.point("F18")
        await revise(exchange, other, lambda body: _pointed(body, gone.logical_id, survivor.logical_id))


async def _head(exchange: Exchange, logical_id: str, survivor: ServerResource) -> ServerResource | None:
    """Return the record that a link leads to by now; None where it is gone, or is the survivor."""
    record = await exchange.read(logical_id)
    head = await head_of(exchange, record) if record is not None else None
    return None if head is None or head.logical_id == survivor.logical_id else head


def _seen_also_by(body: Body, *others: str) -> Body:
    for other in others:
        body = seen_also(body, other)
    return body


def _pointed(body: Body, gone: str, survivor: str) -> Body:
    """Return a record whose links to the one that is gone lead to its survivor, each link once."""
    found = links(body, SEE_ALSO)
    if gone in found:
        body = seen_also(parted(body, gone), survivor)
    elif found.count(survivor) < 2:
        return body
    kept: list[Any] = []
    for link in body.get("link") or ():
        if link not in kept:
            kept.append(link)
    return body | {"link": kept}


VISIT: Final = "Encounter"
HOLDER: Final = "subject"
MOVED: Final = "visits-repointed"
LEFT: Final = "visits-left-behind"
MOST_VISITS: Final = 50
MOST_ROUNDS: Final = 20
_STALE: Final = frozenset({409, 412})
_REFUSED: Final = frozenset({400, 403, 404, 405, 410, 422})


async def repoint(exchange: Exchange, gone: ServerResource, survivor: ServerResource) -> None:
    """Give the visits of a record that was linked away to its survivor; note `visits-repointed`, `visits-left-behind`.

    At most 1,000 of them; a server without visits is asked nothing.
    """
    if not exchange.server.abilities.keeps(VISIT):
        return
    left: set[str] = set()
    for _ in range(MOST_ROUNDS):
        visits = await _of(exchange, gone)
        more = exchange.more
        if visits is None:
            left.add("")
            break
        tried = [one for one in visits if one.reference not in left]
        for visit in tried:
            if not (await _is_ours(exchange, visit) and await _moved(exchange, visit, gone, survivor)):
                left.add(visit.reference)
        if not tried or not (more or len(visits) >= MOST_VISITS):
            left.update([""] if more else ())
            break
    else:
        left.add("")
    if left:
        exchange.note(LEFT)


async def _of(exchange: Exchange, gone: ServerResource) -> list[ServerResource] | None:
    """Return the first visits of a record; None where the server does not say."""
    try:
        found = await exchange.search(f"patient={quote(gone.reference, safe='')}&_count={MOST_VISITS}", VISIT)
    except PermanentDeliveryError:
        return None
    return [one for one in found if held_by(one.body, HOLDER) == gone.reference]


async def _is_ours(exchange: Exchange, visit: ServerResource) -> bool:
    own = await exchange.owned_slices(visit)
    return bool(own or await exchange.memory.claimed(visit.reference, exchange.source))


async def _moved(exchange: Exchange, visit: ServerResource, gone: ServerResource, survivor: ServerResource) -> bool:
    """Write a visit with its new subject, once more where somebody else was quicker; False where it stays."""
    fault.point("F18")
    for _ in range(2):
        body = {**visit.body, HOLDER: {"reference": survivor.reference}}
        answer = await exchange.write_patient("PUT", visit.reference, body, visit.if_match, _STALE | _REFUSED)
        if answer.status < 300:
            exchange.server.cache_of(VISIT).drop(visit.logical_id)
            exchange.note(MOVED)
            return True
        fresh = await exchange.read_again(visit) if answer.status in _STALE else None
        if fresh is not None and not fresh.same_as(visit):
            raise exchange.interrupt()
        if fresh is None or held_by(fresh.body, HOLDER) != gone.reference:
            return fresh is not None
        visit = fresh
    return False


MOST_NOTES: Final = 50
# What the merged and the surviving side are called; HAPI's own operation serves every type.
SIDES: Final = {"hapi.fhir.merge": ("source-resource", "target-resource")}
SIDES_OF_PATIENT: Final = ("source-patient", "target-patient")
_PATH: Final = re.compile(r"Patient(\.[A-Za-z]{1,40}(\[\d{1,4}\])?){1,6}")


async def unite(exchange: Exchange, source: ServerResource, survivor: ServerResource) -> str:
    """Merge one record into the other and return `merged` or `linked`; verified by reading the source.

    Both are read right before `$merge`, which names them by their ids and cannot be undone: a server that was restored
    since may have other people's records under them.

    What the survivor would lose is noted by path, `lost Patient.telecom[0]`; its values stand in the preview's
    attempt only. Raises HeldDeliveryError `merge-strategy-unknown` where a server
    does not tell whether it can merge and the settings do not say either, AmbiguousDeliveryError where it says that it
    merged and the source does not show it.
    """
    if exchange.server.settings.merge_strategy == "auto" and not (exchange.server.abilities.stated or _can(exchange)):
        raise HeldDeliveryError("merge-strategy-unknown")
    if by_links(exchange):
        await _link(exchange, source, survivor)
        await repoint(exchange, source, survivor)
        return "linked"
    await _preview(exchange, source, survivor)
    fault.point("F18")
    before: dict[str, ServerResource] = {}
    for one in (source, survivor):
        now = await exchange.read_again(one)
        if now is None or not now.same_as(one):
            raise exchange.interrupt()
        before[now.reference] = now
    await exchange.write("POST", _path(exchange), _parameters(exchange, source, survivor, preview=False))
    fault.point("F18")
    after = await exchange.read(source.logical_id)
    if after is not None and replaced_by(after.body) != survivor.logical_id and after.body.get("active") is not False:
        raise unclear("merge-unverified")
    # The next version of the record that the merge took away is the merge's own.
    if after is not None and after.follows(before[source.reference]):
        exchange.proven.append(WrittenVersion(after.reference, str(after.version), moment_of(after.updated)))
    exchange.wrote(survivor.reference)
    return "merged"


def by_links(exchange: Exchange) -> bool:
    """Say whether records are merged there by links: as the settings say, or where the server has no merge."""
    strategy = exchange.server.settings.merge_strategy
    return strategy == "link" or (strategy == "auto" and not _can(exchange))


def _can(exchange: Exchange) -> bool:
    return exchange.server.abilities.merge or bool(exchange.server.settings.merge_operation)


def _operation(exchange: Exchange) -> str:
    """Return how the server's merge is called: as the settings name it, else as the server lists it."""
    return exchange.server.settings.merge_operation or exchange.server.abilities.operation or "merge"


def _path(exchange: Exchange) -> str:
    return f"Patient/${_operation(exchange)}"


def _parameters(exchange: Exchange, source: ServerResource, survivor: ServerResource, *, preview: bool) -> bytes:
    names = SIDES.get(_operation(exchange), SIDES_OF_PATIENT)
    parameter: list[dict[str, Any]] = [
        {"name": name, "valueReference": {"reference": one.reference}}
        for name, one in zip(names, (source, survivor), strict=True)
    ]
    if preview:
        parameter.append({"name": "preview", "valueBoolean": True})
    return orjson.dumps({"resourceType": "Parameters", "parameter": parameter})


async def _preview(exchange: Exchange, source: ServerResource, survivor: ServerResource) -> None:
    asked = _parameters(exchange, source, survivor, preview=True)
    answer = await exchange.write("POST", _path(exchange), asked, changes=False)
    listed = answer.json.get("parameter") if isinstance(answer.json, dict) else None
    names = [item.get("name") for item in listed if isinstance(item, dict)] if isinstance(listed, list) else []
    paths = [name for name in names if isinstance(name, str) and _PATH.fullmatch(name)]
    exchange.note(*(f"lost {path}" for path in paths[:MOST_NOTES]))


async def _link(exchange: Exchange, source: ServerResource, survivor: ServerResource) -> None:
    """Two versioned writes, the survivor first, so that what is half done shows itself and is finished later."""

    def replaces(body: Body) -> Body:
        return body if source.logical_id in links(body, "replaces") else _linked(body, source, "replaces")

    def replaced(body: Body) -> Body:
        if replaced_by(body) not in {"", survivor.logical_id}:
            raise merged_elsewhere(source, None, survivor)
        body = body if replaced_by(body) else _linked(body, survivor, "replaced-by")
        return body | {"active": False}

    await revise(exchange, survivor, replaces)
    fault.point("F18")
    await revise(exchange, source, replaced)


def _linked(body: Body, other: ServerResource, kind: str) -> Body:
    return body | {"link": [*(body.get("link") or ()), {"other": {"reference": other.reference}, "type": kind}]}
