"""Warnings that know more than their text: a code that a table lacks knows which table that is."""

from collections.abc import Iterable

from engine.fhir.plan import UnmappedCode


class UnmappedWarning(str):
    """`unmapped-code PID-16`, and the table that has no row for what stands there."""

    __slots__ = ("table",)
    table: str

    def __new__(cls, text: str, table: str) -> "UnmappedWarning":
        """Return the text with its table."""
        made = super().__new__(cls, text)
        made.table = table
        return made


def unmapped_in(warnings: Iterable[str]) -> tuple[UnmappedCode, ...]:
    """Return the tables that lacked a code, each with the field, once; never the code."""
    found = (UnmappedCode(one.table, one.partition(" ")[2]) for one in warnings if isinstance(one, UnmappedWarning))
    return tuple(dict.fromkeys(found))
