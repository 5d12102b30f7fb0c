"""Charts of a time before `normalise`: their numbers are brought into the form in which they are searched now.

Without this a chart whose number has another spelling is not found, and a second one is made. A number that is known in
its form costs nothing here.
"""

from collections.abc import Collection, Sequence

from engine.deliver.patient.remember import recall
from engine.deliver.patient.resolve import Resolution, resolve
from engine.deliver.stored import Body, involved
from engine.deliver.verdict import MERGED_AWAY, OLD, KnownIdentifier
from engine.deliver.wire.creating import only_creates
from engine.deliver.wire.exchange import Exchange
from engine.deliver.wire.failure import unclear
from engine.deliver.wire.revise import revise
from engine.errors import HeldDeliveryError
from engine.fhir.patient import carries, carries_any, number_of
from engine.fhir.plan import Identity, Plan

NOTE = "number-brought-into-form"
HELD = "number-in-another-form"


async def bring_into_form(exchange: Exchange, plan: Plan) -> None:
    """Give the charts that a plan is about their numbers in the form, where they have them in another one.

    Raises HeldDeliveryError: those of resolving, `ambiguous-identity` where several charts have the number,
    `would-merge` where another one has it in its form, `number-in-another-form` where the destination takes no updates.
    """
    for identity in dict.fromkeys(identity for identity, _ in plan.originals):
        spelt = [original for one, original in plan.originals if one == identity]
        forms = [one for one in dict.fromkeys((*spelt, *exchange.memory.other_forms(identity))) if one != identity]
        if forms and exchange.server.cache.stands_for((identity,)) is None and not await recall(exchange, (identity,)):
            await _change(exchange, identity, forms)


async def _change(exchange: Exchange, identity: Identity, forms: Sequence[Identity]) -> None:
    # Each form by itself: one chart need not have all of them.
    found = [one for form in forms if (one := await resolve(exchange, (form,), remembered=False)) is not None]
    charts = {one.patient.logical_id: one.patient for one in found}
    if not charts:
        return
    named = tuple(involved("has the number", one) for one in charts.values())
    if len(charts) > 1:
        raise HeldDeliveryError("ambiguous-identity", involved=named)
    (chart,) = charts.values()
    if carries(chart.body, identity):
        return
    other = await resolve(exchange, (identity,), remembered=False)
    if other is not None and other.patient.logical_id != chart.logical_id:
        raise HeldDeliveryError("would-merge", involved=(*named, involved("has it in its form", other.patient)))
    if only_creates(exchange):
        raise HeldDeliveryError(HELD, involved=named)
    await _write(exchange, found[0], identity, frozenset(forms))


async def _write(exchange: Exchange, found: Resolution, identity: Identity, forms: Collection[Identity]) -> None:
    """Write each record that has a form: the patient's, and the merged-away one that leads to it."""
    for record in (found.tombstone, found.patient):
        if record is None or not carries_any(record.body, tuple(forms)):
            continue
        written = await revise(exchange, record, lambda body: in_form(body, identity, forms), tolerant=True)
        if written is None:
            raise HeldDeliveryError(HELD, involved=(involved("has the number", record),))
        if not (status := carries(written.body, identity)):
            raise unclear("rename-unverified")
        if found.tombstone is None:
            exchange.known[identity] = KnownIdentifier(identity, written.logical_id, status)
        elif record is found.tombstone:
            survivor = found.patient.logical_id
            exchange.known[identity] = KnownIdentifier(identity, written.logical_id, MERGED_AWAY, survivor)
    exchange.note(NOTE)


def in_form(body: Body, identity: Identity, forms: Collection[Identity]) -> Body:
    """Return a record that has a number in its form, and in the other forms as old ones.

    In the form it is in use where one of the others was.
    """
    items = body.get("identifier") or []
    spelt = [item for item in items if number_of(item) in forms]
    best = min(spelt, key=lambda item: item.get("use") == OLD)
    kept = [{**item, "use": OLD} if number_of(item) in forms else item for item in items]
    return body | {"identifier": [*kept, {**best, "value": identity.value}]}
