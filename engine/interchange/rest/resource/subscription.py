"""The line of the catalogue for subscriptions, and whose record their criteria are limited to."""

from typing import Final
from urllib.parse import parse_qsl

from engine.interchange.rest.resource.definition import STATUS, Definition, code, named, text
from engine.interchange.store.search.criterion import Parameter, ParameterKind, Rank
from engine.interchange.store.search.text import split
from engine.interchange.tokens.role import RoleRule

SUBSCRIPTION: Final = "Subscription"
ENDPOINT: Final = "channel.endpoint"
CRITERIA: Final = "criteria"
# Without these nothing could be sent.
WHOLE: Final = ("status", CRITERIA, "channel.type", ENDPOINT)
OWNERS: Final = frozenset({"patient", "subject", "beneficiary"})
SUBSCRIBING: Final = Definition(
    SUBSCRIPTION,
    named(
        SUBSCRIPTION,
        (
            STATUS,
            code("type", "channel.type"),
            code("payload", "channel.payload"),
            Parameter("url", ParameterKind.URI, "", Rank.ONE, (ENDPOINT,)),
            text(CRITERIA, CRITERIA),
        ),
    ),
    reading=RoleRule.SUBSCRIBE,
    writing=RoleRule.SUBSCRIBE,
    creating=RoleRule.SUBSCRIBE,
)


def patients_of(criteria: str) -> tuple[str, ...]:
    """Return the patients to whom criteria are limited, as `Patient/id`; none where they are not.

    Each parameter that names a patient counts: a client for one patient may name no other in any of them.
    """
    name, _, query = criteria.partition("?")
    owners = {"_id"} if name == "Patient" else OWNERS
    values = [one for key, value in parse_qsl(query) if key in owners for one in split(value, ",")]
    return tuple(f"Patient/{one.rpartition('/')[2]}" for one in values)
