"""An order as the bytes of one HL7 message, for a laboratory as it is configured."""

from datetime import datetime
from typing import Final, NamedTuple

from engine.config.laboratory import LaboratoryConnector
from engine.hl7.charset import coding_of
from engine.interchange.orders.laboratory.message.datatypes import UnwritableError, leaf, row
from engine.interchange.orders.laboratory.message.ordered import Habits, segments
from engine.interchange.orders.laboratory.message.person import Authorities, payment, pid, pv1
from engine.interchange.orders.laboratory.order import LaboratoryOrder


class Envelope(NamedTuple):
    """What a message is sent as: its control id, its moment, and its processing id (MSH-11)."""

    control_id: str
    at: datetime
    processing_id: str


STRUCTURES: Final = {"OML^O21": "OML_O21", "ORM^O01": "ORM_O01"}
# MSH-9.3 came with 2.3.1.
STRUCTURED: Final = (3, 1)


def write_order(order: LaboratoryOrder, settings: LaboratoryConnector, envelope: Envelope) -> bytes:
    """Return the message of an order.

    UnwritableError: it has nothing to order, an answer that no message says, or letters that the character set lacks.

    Tests are in the sequence of the order's actions; each has its own ORC and OBR with its placer order number.
    """
    if not order.tests:
        raise UnwritableError("the order has no test that is there")
    habits = Habits(release_of(settings.version), settings.message == "OML^O21", settings.placer_namespace)
    authorities = Authorities(dict(settings.authorities), settings.placer_namespace)
    rows = [
        _msh(order, settings, envelope, habits),
        pid(order, authorities),
        *pv1(order, authorities),
        *payment(order, authorities),
        *segments(order, habits),
    ]
    coding = coding_of(settings.charset.encode(), b"~", "ascii")
    codec = coding.name if coding is not None else "ascii"
    try:
        return "".join(f"{one}\r" for one in rows).encode(codec)
    except UnicodeEncodeError as error:
        raise UnwritableError(f"the order holds characters that {settings.charset} has not") from error


def release_of(version: str) -> tuple[int, int]:
    """Return the numbers behind `2.` of a version."""
    minor, _, patch = version.removeprefix("2.").partition(".")
    return int(minor), int(patch or 0)


def _msh(order: LaboratoryOrder, settings: LaboratoryConnector, envelope: Envelope, habits: Habits) -> str:
    kind = settings.message
    both = settings.acknowledgement == "application"
    fields = {
        2: settings.sending_application,
        3: settings.sending_facility or leaf(order.tenant),
        4: settings.receiving_application,
        5: settings.receiving_facility,
        6: envelope.at.strftime("%Y%m%d%H%M%S%z"),
        8: f"{kind}^{STRUCTURES[kind]}" if habits.release >= STRUCTURED else kind,
        9: envelope.control_id,
        10: envelope.processing_id,
        11: settings.version,
        14: "AL" if both else "",
        15: "AL" if both else "",
        17: settings.charset,
    }
    return row("MSH", {1: "^~\\&", **fields})
