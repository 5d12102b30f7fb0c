"""Compiled conditions: an expression within a generated function, or a function of its own."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from engine.hl7.leaf import NULL
from engine.hl7.segment import BITS
from engine.mapping.language.expression import EVENT
from engine.mapping.language.node import ComponentNode, Test, Text, ValueNode, field_filled, function_of
from engine.mapping.language.source import GeneratedSource

# The results of a source without a value.
EMPTY: Final = frozenset({None, NULL, ""})


class CompiledTerm(NamedTuple):
    """One test of a condition: a source (EVENT, or a node) is a text, or one of `values`; or is not (`negated`).

    `unlike`: it is a text, and none of `values`. `holds`: a function that tests the source in place of `values`.
    """

    source: ValueNode | str
    values: frozenset[str]
    negated: bool
    holds: Callable[[Any], bool] | None = None
    unlike: bool = False

    def write(self, source: GeneratedSource) -> str:
        """Return the test as an expression."""
        if self.holds is not None:
            found = f"reading.{EVENT}" if isinstance(self.source, str) else ""
            found = found or f"{source.name(function_of(self.source))}(scope, reading)"  # type: ignore[arg-type]
            test = f"{source.name(self.holds)}({found})"
            return f"not {test}" if self.negated else test
        # A comparison never holds for a source without a value.
        values = source.name(self.values | EMPTY if self.unlike else self.values)
        among = f"not in {values}" if self.unlike else f"in {values}"
        if isinstance(self.source, str):
            test = f"reading.{EVENT} {among}" if self.values else f"bool(reading.{EVENT})"
        elif isinstance(self.source, ComponentNode):
            bit = BITS[self.source.number]
            wanted = among if self.values else "is not NULL"
            test = f"{source.filled(bit)} and {source.cell(self.source.number, bit)} {wanted}"
        else:
            found = f"{source.name(function_of(self.source))}(scope, reading)"
            test = f"{found} {among}" if self.values else f"isinstance({found}, str)"
            if isinstance(self.source, Text):
                field = field_filled(source, self.source.segment, self.source.at_hand, self.source.field)
                test = f"{field} and {test}"
        return f"not ({test})" if self.negated else f"({test})"


class CompiledCondition(NamedTuple):
    """A condition: alternatives of terms that must all hold."""

    groups: tuple[tuple[CompiledTerm, ...], ...]

    def write(self, source: GeneratedSource) -> str:
        """Return the condition as an expression."""
        return f"({' or '.join(' and '.join(term.write(source) for term in group) for group in self.groups)})"

    @property
    def test(self) -> Test:
        """The condition as a function."""
        source = GeneratedSource()
        source.line(f"return {self.write(source)}")
        made: Test = source.function()
        return made
