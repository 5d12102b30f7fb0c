"""What the API offers: each act at an address, from one table and one rule for the acts that it does not name."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from engine.ops.access.administration import OF_TOKENS
from engine.ops.access.role import may
from engine.ops.operations.act import Act

ROOT: Final = "/api/v1"
PERIOD: Final = ("since", "until")
PLAIN: Final = ("state", "channel", "source", "event", "control_id", "reason", "outcome", *PERIOD, "before", "limit")


@dataclass(frozen=True, slots=True)
class Offer:
    """One act at one address; `query` are the parameters that a GET takes, of a POST the body takes all."""

    method: Literal["GET", "POST"]
    path: str
    act: str
    query: tuple[str, ...] = ()


# Reads stand at addresses of their own; what names a patient is asked for in a body, never in an address.
TABLE: Final = (
    Offer("GET", "/messages", "messages.list", PLAIN),
    Offer("POST", "/messages/search", "messages.search"),
    Offer("GET", "/messages/counts", "messages.counts", PERIOD),
    Offer("GET", "/messages/throughput", "messages.throughput", (*PERIOD, "channel", "points")),
    Offer("GET", "/messages/{entry}", "messages.show"),
    Offer("GET", "/messages/{entry}/raw", "messages.raw"),
    Offer("GET", "/messages/{entry}/facts", "messages.facts"),
    Offer("GET", "/messages/{entry}/explain", "messages.explain", ("element", "field")),
    Offer("GET", "/messages/{entry}/matches", "messages.matches", ("destination",)),
    Offer("POST", "/messages/{entry}/replay", "messages.replay"),
    Offer("POST", "/messages/{entry}/release", "messages.release"),
    Offer("POST", "/messages/{entry}/retry", "messages.retry"),
    Offer("POST", "/messages/{entry}/discard", "messages.discard"),
    Offer("POST", "/messages/{entry}/rehearse", "messages.rehearse"),
    Offer("POST", "/messages/{entry}/edit", "messages.edit"),
    Offer("POST", "/messages/{entry}/resolve", "messages.resolve"),
    Offer("GET", "/lanes", "lanes.list", ("reason", "channel", "destination", "limit")),
    Offer("GET", "/lanes/{entry}", "lanes.show", ("destination", "limit")),
    Offer("GET", "/replays", "replays.list", ("limit",)),
    Offer("GET", "/replays/{run}", "replays.progress"),
    Offer("POST", "/replays/{run}/stop", "replays.stop"),
    Offer("POST", "/replays/{run}/resume", "replays.resume"),
    Offer("GET", "/channels", "channels.list"),
    Offer("GET", "/destinations", "destinations.list"),
    Offer("GET", "/codes/unmapped", "codes.unmapped", (*PERIOD, "channel")),
    Offer("GET", "/alerts", "alerts.list", ("all", "limit")),
    Offer("GET", "/reasons", "reasons", ("code", "kind")),
    Offer("GET", "/stats", "stats"),
    Offer("GET", "/alive", "alive"),
    Offer("GET", "/metrics", "metrics"),
)


def offers(acts: Iterable[Act]) -> Iterator[tuple[Offer, Act]]:
    """Return each act that a token may do, with its address; one that the table does not name is a POST.

    `replays.start` is at /replays/start. Accounts, tokens and the care of the journal are for no token: a person does
    that, at a page or at the terminal.
    """
    named = {offer.act: offer for offer in TABLE}
    for act in acts:
        if not any(may(role, act.permission) for role in OF_TOKENS):
            continue
        yield named.get(act.name) or Offer("POST", "/" + act.name.replace(".", "/"), act.name), act
