"""Looking for entries: what a request names as filters, and the page that is found.

Acts `messages.list` and `messages.search` take, each optional and all together to be true:

    state, channel, source (`MSH-3|MSH-4`), event, control_id, reason
    outcome          a note or flag of the entry, or a code of an OperationOutcome: `possible-duplicate`
    since, until     received then or later; before then: 2025-07-01, 2025-07-01T09:30, 90m, 12h, 7d (ago)
    patient, visit   `value` or `system|value`; a visit number      (messages.search only)
    text             words that the message holds, each whole or as `begin*`  (messages.search only)
    before, limit    the page: entries with smaller numbers, at most 1,000 (50)

and return `{entries: [row], before, searched_back_to}`, newest first. `before` goes on with the next page, null where
there is nothing older. `searched_back_to` is null, or the time up to which was searched before the time for one
answer was over: then there may be more, and `before` goes on there.

A row is `{entry, received_at, channel, source, control_id, event, visit, state, reason, ack, ack_outcome, flags,
receipts}`; in messages.list without `visit`, and without the words of whoever discarded it.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from engine.errors import UsageError
from engine.journal.entry import State
from engine.journal.read.reading import Reader
from engine.journal.read.views import Filters
from engine.journal.read.wording import Phrases
from engine.ops.request import moment_in, number_in, text_in
from engine.ops.views.view import row_facts, row_of, time_of

MOST_ROWS: Final = 1000
PRIVATE: Final = ("patient", "visit", "text")
WORDS: Final = ("channel", "source", "event", "control_id", "reason", "outcome", "patient", "visit", "text")


def filters_of(given: Mapping[str, Any]) -> Filters:
    """Return the filters a request names; UsageError for a state or time that is none."""
    words = {name: text_in(given, name).strip() for name in WORDS}
    state = text_in(given, "state")
    if state and state not in list(State):
        raise UsageError(f"--state {state} is none of {', '.join(State)}")
    if words["text"] and not Phrases(words["text"]):
        raise UsageError("--text holds no word to look for: letters and digits, `word*` for how one begins")
    return Filters(
        state=State(state) if state else None,
        since=moment_in(given, "since"),
        until=moment_in(given, "until"),
        **words,
    )


def listed(folder: Path, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a page of entries for whoever may see nothing of a patient; UsageError for filters that tell of one."""
    named = [name for name in PRIVATE if given.get(name)]
    if named:
        raise UsageError(
            f"the filter {named[0]} is of a patient: ask messages.search, with a role that may see patients"
        )
    found = searched(folder, given)
    return found | {"entries": [row_facts(row) for row in found["entries"]]}


def searched(folder: Path, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a page of entries, newest first."""
    limit = min(max(number_in(given, "limit") or 50, 1), MOST_ROWS)
    with Reader(folder) as reader:
        page = reader.page(filters_of(given), limit, number_in(given, "before") or None)
    return {
        "entries": [row_of(row) for row in page.rows],
        "before": page.before,
        "searched_back_to": time_of(page.searched_back_to),
    }
