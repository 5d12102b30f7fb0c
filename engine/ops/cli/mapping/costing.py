"""What `mappings check --cost` prints: the worst case of each event and of each resource file."""

from typing import Any

from engine.mapping.authoring.cost import MOST_STEPS, Cost, Costs
from engine.terminal.table import output, table

HEADINGS = ("Lines", "Steps", "Look-ups", "Resources")


def print_costs(costs: Costs) -> None:
    """Print two tables, and by which bounds they hold."""
    events = [
        (one.event, one.rule, ", ".join(one.types), *_numbers(one.cost), f"{one.requests:,}") for one in costs.events
    ]
    output().print(table(("Event", "Rule", "Sends", *HEADINGS, "Requests"), events))
    files = [(f"resources/{name.lower()}.yaml", *_numbers(cost)) for name, cost in costs.files.items() if cost.lines]
    output().print(table(("File", *HEADINGS), files))
    bounds = costs.bounds
    output().print(
        f"at most, for one message of {bounds.segments:,} segments, {bounds.repetitions:,} repetitions and "
        f"{bounds.patients:,} patients (a channel's limits); files above {MOST_STEPS:,} steps are warned of"
    )


def costs_as_json(costs: Costs) -> dict[str, Any]:
    """Return the same as JSON."""
    return {
        "bounds": costs.bounds._asdict(),
        "events": {
            one.event: {"rule": one.rule, "sends": list(one.types), **_said(one.cost), "requests": one.requests}
            for one in costs.events
        },
        "resources": {name: _said(cost) for name, cost in costs.files.items() if cost.lines},
    }


def _numbers(cost: Cost) -> tuple[str, ...]:
    return tuple(f"{number:,}" for number in (cost.lines, *cost.most))


def _said(cost: Cost) -> dict[str, int]:
    return {"lines": cost.lines, **cost.most._asdict()}
