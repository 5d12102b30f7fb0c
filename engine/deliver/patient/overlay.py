"""Another person under the same number: what a message says of whom, held against the record it was found by."""

from collections.abc import Iterable

from engine.deliver.patient.resolve import Resolution
from engine.deliver.stored import ServerResource
from engine.deliver.wire.exchange import Exchange
from engine.errors import HeldDeliveryError
from engine.fhir.patient import carries, overlays
from engine.fhir.plan import Identity, PatientRecord


def check_found(exchange: Exchange, record: PatientRecord, found: Resolution, named: Iterable[Identity] = ()) -> None:
    """Note, or hold, a message that speaks of another person than the record that its numbers lead to.

    A number that is out of use may have been given out again, so what is found by such numbers alone (`named`: beside
    those of the record) is held: `merged-identifier-reused`; and whoever it is where the channel's `merged_identifier`
    says so.
    """
    if not (found.redirected or out_of_use(found.patient, (*record.identities, *named))):
        check_person(exchange, record, found.patient, "overlay-suspected", exchange.channel.another_person == "hold")
        return
    if exchange.channel.merged_identifier == "hold":
        raise HeldDeliveryError("merged-identifier")
    check_person(exchange, record, found.patient, "merged-identifier-reused", hold=True)
    if found.redirected:
        exchange.note("redirected-to-survivor")


def out_of_use(patient: ServerResource, identities: Iterable[Identity]) -> bool:
    """Say whether all of the identifiers that a record carries are old ones."""
    return {carries(patient.body, identity) for identity in identities} - {""} == {"old"}


def check_person(exchange: Exchange, record: PatientRecord, patient: ServerResource, code: str, hold: bool) -> None:
    """Note `code`, or hold for it until somebody decides, where a message speaks of another person than a record."""
    if not overlays(record, patient.body):
        return
    if hold:
        exchange.hold(code)
    exchange.note(code)
