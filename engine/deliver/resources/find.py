"""A resource that is only referred to: found by an identifier at the server, or left out; never made."""

from typing import Final

from engine.deliver.resources.found import owner_of, search_kept, standing
from engine.deliver.wire.exchange import Exchange
from engine.fhir.patient_compartment import held_by
from engine.fhir.plan import Find, Keep
from engine.fhir.versions.names import stu3_name

SEVERAL: Final = "multiple-matches"


async def find(exchange: Exchange, interaction: Find) -> str:
    """Carry out a Find: what refers to it does so from then on, or is left out with a note. Always `unchanged`.

    The server is asked each time, for what is found today may be somebody else's tomorrow. Raises HeldDeliveryError
    (`order-of-another-patient`) and those of a delivery.
    """
    record = interaction.record
    named = stu3_name(record.type) if exchange.server.settings.fhir == "STU3" else ""
    found = await exchange.search(search_kept(record.identities), record.type, named)
    found = tuple(one for one in found if standing(one))
    if record.holder and len(found) > 1:
        ours = exchange.references.get(record.patient)
        found = tuple(one for one in found if held_by(one.body, record.holder) == ours) or found
    if len(found) != 1:
        exchange.note(SEVERAL if found else interaction.absent)
        exchange.unfound.add(record.local)
        return "unchanged"
    if record.holder:
        await owner_of(exchange, Keep(record), found[0])
    exchange.references[record.local] = found[0].reference
    exchange.pointed.add(record.local)
    return "unchanged"
