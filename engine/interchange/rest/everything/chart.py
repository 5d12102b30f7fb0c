"""A patient's chart as a list of keys in the order of the answer, and the resources of some of these keys."""

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Final

from engine.interchange.rest.everything.parameters import ChartPart
from engine.interchange.rest.resource.catalogue import CHART, SUPPORTING
from engine.interchange.rest.resource.definition import CARE
from engine.interchange.store.query import MOST_BYTES
from engine.interchange.store.search.date import EVER, NEVER
from engine.interchange.store.transaction import StoredVersion, Transaction

CHART_ROWS: Final = {one.patient_rows: one.name for one in CHART}
CHARTED: Final = frozenset(CHART_ROWS.values())
SUPPORT: Final = tuple(one.name for one in SUPPORTING)
ORDER: Final = ("Patient", *CHART_ROWS.values(), *SUPPORT)

# Names are of this module and of the catalogue; values are always arguments.
IN_CHART: Final = "tenant = ? AND target = ? AND parameter IN ({rows})"
# Care within the days, or without a date: undated care is never hidden.
IN_DAYS: Final = (
    " AND (NOT EXISTS (SELECT 1 FROM date_index AS d WHERE d.key = reference_index.key AND d.parameter = ?)"
    " OR EXISTS (SELECT 1 FROM date_index AS d"
    " WHERE d.key = reference_index.key AND d.parameter = ? AND d.low <= ? AND d.high >= ?))"
)
OWN: Final = "SELECT parameter, key FROM reference_index WHERE {chart}"
CHANGED: Final = " AND (SELECT updated_ms FROM resource WHERE resource.key = reference_index.key) > ?"
SUPPORT_TARGETS: Final = " OR ".join(f"(target > '{name}/' AND target < '{name}0')" for name in SUPPORT)
NAMED: Final = "SELECT DISTINCT target FROM reference_index WHERE {by} AND ({support})"
NAMED_BY_CHART: Final = "key IN (SELECT key FROM reference_index WHERE {chart})"
NAMED_BY_ONE: Final = NAMED.format(by="key = ?", support=SUPPORT_TARGETS)
NAMED_ONE: Final = "SELECT key, updated_ms FROM resource WHERE tenant = ? AND type = ? AND id = ? AND survivor IS NULL"
# A resource that has since moved to another patient, or was deleted, is no longer in this chart.
RECORDS: Final = (
    "SELECT key, type, id, version, updated_ms, survivor, body, EXISTS (SELECT 1 FROM reference_index AS i"
    " WHERE i.key = resource.key AND i.parameter = resource.type || '.patient' AND i.target = ?)"
    " FROM resource WHERE tenant = ? AND survivor IS NULL AND key IN ({keys})"
)
SIZES: Final = "SELECT key, length(body) FROM resource WHERE key IN ({keys})"

Arguments = tuple[str | int, ...]
Keys = dict[str, list[int]]


def chart_keys(transaction: Transaction, patient: StoredVersion, wanted: ChartPart) -> tuple[int, ...]:
    """Return the keys of all that is wanted: the Patient, the chart by type, what these refer to.

    Each type in order of creation. `types` and `since_ms` filter both the care within the days and what it refers to,
    so that a changed directory entry is returned although the care is unchanged.
    """
    found: Keys = {name: [] for name in ORDER}
    if "Patient" in wanted.types and patient.updated_ms > wanted.since_ms:
        found["Patient"].append(patient.key)
    if not wanted.types.isdisjoint(CHARTED):
        _add_chart(found, transaction, patient, wanted)
    if not wanted.types.isdisjoint(SUPPORT):
        _add_support(found, transaction, patient, wanted)
    return tuple(key for keys in found.values() for key in sorted(keys))


def fitting(transaction: Transaction, keys: Sequence[int]) -> int:
    """Return how many of the resources under some keys fit on one page, from the first on; one always does."""
    if len(keys) < 2:
        return len(keys)
    sizes: dict[int, int] = dict(
        transaction.connection.execute(SIZES.format(keys=_marks(keys)), tuple(keys)).fetchall()
    )
    sums = accumulate(sizes.get(key, 0) for key in keys)
    return max(1, sum(size <= MOST_BYTES for size in sums))


def records(transaction: Transaction, patient: StoredVersion, keys: Sequence[int]) -> list[StoredVersion]:
    """Return the resources under some keys, in that order, without those that are no longer of the patient's chart."""
    if not keys:
        return []
    statement = RECORDS.format(keys=_marks(keys))
    target = f"Patient/{patient.id}"
    rows = transaction.connection.execute(statement, (target, transaction.tenant, *keys)).fetchall()
    found = {row[0]: StoredVersion(*row[:-1]) for row in rows if row[-1] or row[1] not in CHARTED}
    return [found[key] for key in keys if key in found]


def chart_condition(tenant: int, patient_id: str, wanted: ChartPart, types: Iterable[str]) -> tuple[str, Arguments]:
    """Return the condition on rows of references that some types of a chart meet, and its arguments."""
    rows = tuple(row for row, name in CHART_ROWS.items() if name in types)
    condition = IN_CHART.format(rows=_marks(rows))
    arguments: Arguments = (tenant, f"Patient/{patient_id}", *rows)
    if (wanted.first_ms, wanted.last_ms) == (NEVER, EVER):
        return condition, arguments
    return condition + IN_DAYS, (*arguments, CARE, CARE, wanted.last_ms, wanted.first_ms)


def _add_chart(found: Keys, transaction: Transaction, patient: StoredVersion, wanted: ChartPart) -> None:
    chart, arguments = chart_condition(transaction.tenant, patient.id, wanted, wanted.types)
    statement = OWN.format(chart=chart)
    if wanted.since_ms != NEVER:
        statement, arguments = statement + CHANGED, (*arguments, wanted.since_ms)
    for parameter, key in transaction.connection.execute(statement, arguments).fetchall():
        found[CHART_ROWS[parameter]].append(key)


def _add_support(found: Keys, transaction: Transaction, patient: StoredVersion, wanted: ChartPart) -> None:
    """Add what the chart refers to, and what that refers to in turn, until nothing new is named."""
    execute = transaction.connection.execute
    chart, arguments = chart_condition(transaction.tenant, patient.id, wanted, CHARTED)
    named_by_chart = NAMED.format(by=NAMED_BY_CHART.format(chart=chart), support=SUPPORT_TARGETS)
    fresh = {row[0] for row in execute(named_by_chart, arguments).fetchall()}
    fresh |= {row[0] for row in execute(NAMED_BY_ONE, (patient.key,)).fetchall()}
    seen: set[str] = set()
    while fresh:
        seen |= fresh
        named: set[str] = set()
        for target in fresh:
            type_name, _, resource_id = target.partition("/")
            row = execute(NAMED_ONE, (transaction.tenant, type_name, resource_id)).fetchone()
            if row is None:
                continue
            if type_name in wanted.types and row[1] > wanted.since_ms:
                found[type_name].append(row[0])
            named |= {one[0] for one in execute(NAMED_BY_ONE, (row[0],)).fetchall()}
        fresh = named - seen


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))
