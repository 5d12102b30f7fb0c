"""Making one record of two at the server: by its `$merge`, or by links where it has none."""

import re
from typing import Any, Final

import orjson

from engine import fault
from engine.deliver.merge.repoint import repoint
from engine.deliver.patient.involved import merged_elsewhere
from engine.deliver.stored import Body, ServerResource
from engine.deliver.wire.exchange import Exchange
from engine.deliver.wire.failure import unclear
from engine.deliver.wire.revise import revise
from engine.errors import HeldDeliveryError
from engine.fhir.patient import links, replaced_by

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
    for one in (source, survivor):
        now = await exchange.read_again(one)
        if now is None or not now.same_as(one):
            raise exchange.interrupt()
    await exchange.write("POST", _path(exchange), _parameters(exchange, source, survivor, preview=False))
    fault.point("F18")
    after = await exchange.read(source.logical_id)
    if after is not None and replaced_by(after.body) != survivor.logical_id and after.body.get("active") is not False:
        raise unclear("merge-unverified")
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
