"""The judge of relays: what their receivers got must be the journal's deliveries, in order, with repeats explained."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tests.relay.receiver import Received
from tests.relay.rig import of_patient

# How many messages a relay in feed order may have sent and not yet settled; with `order: patient`, per connection.
MOST_UNSETTLED: Final = 16
# The methods of attempts at relays.
RELAYED: Final = frozenset({"MLLP", "ACK"})


@dataclass(frozen=True, slots=True)
class Relayed:
    """What one relay's receiver got, and what the journal says of it, in its order.

    `lost`: how many answers the receiver did not give; each explains one repeat. `patients`: of an order that is of
    each patient, their numbers; none where it is that of the feed. `senders` is how many had unanswered messages at
    a time.
    """

    received: Sequence[Received]
    delivered: Sequence[bytes]
    lost: int = 0
    patients: Sequence[str] = ()
    senders: int = 1


@dataclass(slots=True)
class Repeats:
    """Repeats, and how far back each reached."""

    count: int = 0
    back: list[int] = field(default_factory=list)


def judged(relayed: Relayed, kills: int) -> Iterator[str]:
    """Yield each violation: something lost or never delivered, another order, repeats that no kill explains."""
    raws = [one.raw for one in relayed.received]
    firsts, wanted = list(dict.fromkeys(raws)), list(relayed.delivered)
    yield from (f"I10 {name(raw)} is delivered and never came" for raw in wanted if raw not in set(raws))
    yield from (f"I10 {name(raw)} came and is not delivered" for raw in firsts if raw not in set(wanted))
    if not relayed.patients:
        both = set(firsts) & set(wanted)
        pairs = zip([raw for raw in firsts if raw in both], [raw for raw in wanted if raw in both], strict=True)
        yield from (f"I11 {name(came)} came before {name(due)}" for came, due in pairs if came != due)
    for number in relayed.patients:
        if of_patient(firsts, number) != of_patient(wanted, number):
            yield f"I11 messages of {number} came in another order"
    found = repeats(raws)
    if found.count > relayed.lost + MOST_UNSETTLED * kills:
        yield f"I12 {found.count} repeats after {kills} kills and {relayed.lost} lost answers"
    if not relayed.patients:
        yield from (f"I12 a repeat goes back over {back} messages" for back in found.back if back > MOST_UNSETTLED)
        if relayed.senders > 1:
            yield f"I13 {relayed.senders} senders had unanswered messages at once"


def repeats(raws: Sequence[bytes]) -> Repeats:
    """Return the repeats among what came: how many messages each run of them went back."""
    found, newest = Repeats(), 0
    position: Mapping[bytes, int] = {raw: at for at, raw in enumerate(dict.fromkeys(raws))}
    counts: Counter[bytes] = Counter()
    for raw in raws:
        if counts[raw]:
            found.count += 1
            found.back.append(newest - position[raw] + 1)
        counts[raw] += 1
        newest = max(newest, position[raw])
    return found


def numbers_in(raws: Sequence[bytes]) -> list[str]:
    """Return the numbers of patients that messages are about."""
    return sorted({pid.split(b"|")[3].split(b"^")[0].decode() for raw in raws for pid in raw.split(b"\r")
                   if pid.startswith(b"PID|")})  # fmt: skip


def name(raw: bytes) -> str:
    """Return MSH-10."""
    return raw.split(b"\r")[0].split(b"|")[9].decode()
