"""What a mapping could not use of a message that was settled, counted for operators: never the value itself."""

from engine import telemetry
from engine.fhir.plan import Plan


def count_warnings(channel: str, plan: Plan | None) -> None:
    """Count each warning of a plan by reason and field, and codes that a table lacks by that table too."""
    if plan is None:
        return
    for warning in plan.warnings:
        reason, _, place = warning.partition(" ")
        telemetry.series(telemetry.WARNINGS, channel, reason, place).inc()
    for table, field in plan.unmapped:
        telemetry.series(telemetry.UNMAPPED, channel, table, field).inc()
