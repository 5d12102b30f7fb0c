"""Charts written as documents and read again: the same facts, and what of them no document carries."""

import pytest

from engine.interchange.ccda.reading.document import read_ccda
from engine.interchange.synthetic.chart import synthetic_chart
from tests.interchange.ccda.charts import hostile, the_least, written
from tests.interchange.ccda.round_trip import charted, facts_of
from tests.interchange.ccda.written import valid


@pytest.mark.parametrize("seed", ["a", "b", "c"])
def test_what_was_written_is_read_as_the_same_facts(seed: str) -> None:
    """Each fact of a chart comes back once, with its codes, dates, values and status; nothing comes beside them."""
    chart = synthetic_chart(seed, facts=150)
    facts = read_ccda(written(chart))
    valid(facts)
    before, after = facts_of(chart[1:]), facts_of(charted(facts, chart[0])[1:])
    assert (before - after, after - before) == ({}, {})


@pytest.mark.parametrize(
    "chart", [synthetic_chart("again", facts=150), the_least(), hostile()], ids=["invented", "least", "hostile"]
)
def test_what_was_read_is_written_and_read_again_as_it_is(chart: list[object]) -> None:
    """From the second document on nothing changes any more, whatever the first chart was."""
    first = charted(read_ccda(written(chart)), chart[0])
    again = charted(read_ccda(written(first)), chart[0])
    one, other = facts_of(first[1:]), facts_of(again[1:])
    assert (one - other, other - one) == ({}, {})
