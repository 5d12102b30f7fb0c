"""How much there is and how it goes: what stands where now, what came and ended in a time, codes without a mapping.

`messages.counts` (since, until; the last 24 hours) returns

    entries, last         how many entries there are, and the newest one's number
    at_door               {state: count}: entries without deliveries
    deliveries            {destination: {state: count}}: those not delivered, as they stand now
    oldest_unfinished_at  when the oldest unfinished entry was received, null where all is finished
    queues                {destination: {unfinished, held, oldest_at, age_seconds}}: what waits, with the oldest of it
    since, until          the time of what follows
    received              {channel: {received, refused, filtered}}: messages of that time (duplicates not counted)
    settled               {destination: {delivered, filtered, held, rejected, retried}}: ends of that time

`messages.throughput` (since, until, channel, points) returns the same as series for a chart: `{since, until, seconds,
at: [time], received: {channel: [n]}, refused: {channel: [n]}, settled: {destination: {state: [n]}}, ack_ms: {channel:
{p50: [ms], p99: [ms]}}}`; `seconds` is a bucket's width, a whole number of minutes, chosen for at most `points` (180)
buckets; a bucket without acknowledgements has null.

`codes.unmapped` (since, until, channel) returns `{since, until, codes: [{note, place, channel, entries, last}],
searched_back_to}`: places at which a message held a code that its table has no row for, most frequent first, with the
newest entry. What the code was, `codes.values` (entry, place) tells to whoever may see patients.
"""

from pathlib import Path
from typing import Any

from engine.journal.reading import Reader
from engine.ops.view import time_of


def counted(folder: Path) -> dict[str, Any]:
    """Return the counts of a whole journal."""
    with Reader(folder) as reader:
        stats = reader.stats()
    return {
        "entries": stats.entries,
        "last": stats.last_seq,
        "at_door": stats.at_door,
        "deliveries": stats.deliveries,
        "oldest_unfinished_at": time_of(stats.oldest_unfinished_at),
    }
