"""Figures: a number with its unit, by name; as a table for people and as JSON for programs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Figure:
    """A number with its unit, which may be empty."""

    value: float
    unit: str = ""

    def __str__(self) -> str:
        return f"{rounded(self.value)} {self.unit}".rstrip()


def rounded(value: float) -> str:
    """Return a number with three significant digits, and with all digits before its point."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) >= 1 else f"{value:.3f}".rstrip("0").rstrip(".")


def table(rows: Mapping[str, object]) -> str:
    """Return one line for each row, the names in a column."""
    width = max(map(len, rows))
    return "\n".join(f"{name:<{width}}  {value}" for name, value in rows.items())


def to_json(figures: Mapping[str, Figure]) -> dict[str, dict[str, Any]]:
    """Return figures as JSON holds them."""
    return {name: {"value": figure.value, "unit": figure.unit} for name, figure in figures.items()}


def from_json(content: Mapping[str, Mapping[str, Any]]) -> dict[str, Figure]:
    """Return figures that stand in JSON."""
    return {name: Figure(one["value"], one["unit"]) for name, one in content.items()}
