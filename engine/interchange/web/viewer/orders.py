"""The orders of a patient: status, tests, and performer."""

from typing import Final

from engine.fhir.json import Json, JsonObject
from engine.interchange.kernel.extension import value
from engine.interchange.orders.order import NAME, PERFORMER, STATUS, TEST, actions_of
from engine.interchange.store.references import local_target
from engine.interchange.web.viewer.asking import Asker, RefusedPageError

NEWEST: Final = "_sort=-authored,-_lastUpdated&_count=100"


async def orders_of(asker: Asker, patient_id: str) -> list[Json]:
    """Return the orders of a patient, newest first."""
    orders = await asker.found(NAME, f"patient={patient_id}&{NEWEST}")
    tests = {f"{TEST}/{one['id']}": one for one in await asker.found(TEST, f"patient={patient_id}&{NEWEST}")}
    names: dict[str, str] = {}
    return [await _order(asker, one, tests, names) for one in orders]


async def _order(asker: Asker, order: JsonObject, tests: JsonObject, names: dict[str, str]) -> JsonObject:
    performer = value(order, asker.sis, PERFORMER) or {}
    target = local_target(performer.get("reference", ""))
    if target and target not in names:
        names[target] = await _name(asker, target)
    named = (tests.get(local_target(one.reference)) for one in actions_of(order))
    return {
        "id": order["id"],
        "state": (value(order, asker.sis, STATUS) or {}).get("code", "") or order.get("status", ""),
        "at": order.get("authoredOn", ""),
        "by": order.get("author", {}).get("display", ""),
        "laboratory": performer.get("display", "") or names.get(target, ""),
        "tests": [_title(one) for one in named if one is not None],
    }


async def _name(asker: Asker, target: str) -> str:
    try:
        return str((await asker.fhir(target)).get("name", ""))
    except RefusedPageError:
        return ""


def _title(test: JsonObject) -> str:
    code = test.get("code", {})
    shown = (one.get("display") or one.get("code", "") for one in code.get("coding", ()))
    return str(code.get("text") or next(shown, "") or "(not said)")
