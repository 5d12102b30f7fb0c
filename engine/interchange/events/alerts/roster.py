"""Enrollment: the members of the Group `Clinical Alerts Roster`, or all patients of a tenant."""

from typing import Final

from engine.config.service import Enrollment
from engine.fhir.json import JsonObject
from engine.interchange.rest.resource.roster import GROUP
from engine.interchange.store.search.date import span
from engine.interchange.store.transaction import Transaction, milliseconds

NAME: Final = "Clinical Alerts Roster"
GROUPS: Final = "SELECT key FROM reference_index WHERE tenant=? AND target=? AND parameter=? ORDER BY key"
MEMBER: Final = f"{GROUP}.member"


def enrolled(transaction: Transaction, enrollment: Enrollment, patient_id: str) -> bool:
    """True if a live patient is enrolled now; a later enrollment does not raise earlier alerts."""
    if enrollment == "all":
        return True
    target = f"Patient/{patient_id}"
    keys = transaction.connection.execute(GROUPS, (transaction.tenant, target, MEMBER)).fetchall()
    groups = (transaction.by_key(key).resource() for (key,) in keys)
    now_ms = milliseconds(transaction.at)
    return any(
        _present(member, target, now_ms)
        for group in groups
        if group.get("name") == NAME and group.get("active", True)
        for member in group.get("member", ())
    )


def _present(member: JsonObject, target: str, now_ms: int) -> bool:
    if member.get("entity", {}).get("reference") != target or member.get("inactive", False):
        return False
    period = member.get("period", {})
    start, end = (span(period[name]) if name in period else None for name in ("start", "end"))
    return (start is None or start[0] <= now_ms) and (end is None or now_ms <= end[1])
