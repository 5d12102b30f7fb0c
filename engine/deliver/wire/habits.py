"""What a server does its own way, as values: a profile or a key sets them, and delivery asks for them."""

from typing import Final, NamedTuple

from engine.config.destination import IDEMPOTENCY_KEY, Destination

_STRONG: Final = ("x-amz-fhir-history-consistency-level", "strong")


class ServerHabits(NamedTuple):
    """The ways of one server, beyond what FHIR says.

    `idempotency_header`: the header of a create that is answered 409 with the original where its key is repeated.
    `read_headers`: sent with every read and search, so that they show what was written last.
    """

    idempotency_header: str = "x-amz-fhir-idempotency-key"
    read_headers: tuple[tuple[str, str], ...] = ()


def habits_of(settings: Destination) -> ServerHabits:
    """Return the habits that a destination's keys ask for."""
    return ServerHabits(read_headers=(_STRONG,)) if settings.create == IDEMPOTENCY_KEY else ServerHabits()
