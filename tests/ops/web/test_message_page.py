"""What the page of one message shows of it."""

from engine.journal.entry import State
from engine.ops.views.entry import Delivery, Entry
from engine.ops.views.segments import FieldView, PartView, SegmentView
from engine.ops.web.pages.message import _why, first_of
from tests.ops.web.conftest import Site

PART = PartView(path="NK1-2.1", name="", value="x")


def _segment(values: int) -> SegmentView:
    field = FieldView(path="NK1-2", name="", value="x", parts=(PART,) * (values - 1))
    return SegmentView(name="NK1", number=1, fields=(field,))


def test_a_page_shows_the_beginning_of_a_huge_message() -> None:
    """As many segments as hold no more values than fit, one at least; all of a usual message."""
    assert len(first_of([_segment(10)] * 1000, 95)) == 9
    assert len(first_of([_segment(1000)] * 3, 95)) == 1
    assert len(first_of([_segment(10)] * 9, 95)) == 9
    assert first_of([], 95) == []


def test_what_is_said_of_a_message_is_said_once() -> None:
    """Codes that mean the same stand together before their one line; the entry's own reason comes first."""
    delivery = Delivery.model_construct(reason="http-422", notes=("unmapped-code PID-16", "unmapped-code PID-10"))
    entry = Entry.model_construct(
        state=State.HELD, reason="http-422", flags=("unmapped-code PID-16", "stale"), deliveries=(delivery,)
    )
    told = [(codes, line.code) for codes, line in _why(entry)]
    assert told == [
        (["http-422"], "http-4*"),
        (["unmapped-code PID-16", "unmapped-code PID-10"], "unmapped-code"),
        (["stale"], "stale"),
    ]


async def test_states_are_said_in_words_and_filtered_by_those_of_the_code(site: Site) -> None:
    """A page says what a person understands; a filter and the API keep the word that programs read."""
    one = await site.person("operator")
    text = (await one.get("/messages?state=waiting")).text
    assert '<option value="waiting" selected>waiting behind another</option>' in text
    assert '<option value="claimed">being delivered</option>' in text
    assert '<span class="state busy">waiting behind another</span>' in text
    assert "State: <bdi>waiting behind another</bdi>" in text
    assert "claimed</" not in text
    channels = (await one.get("/channels")).text
    assert '<span class="state good">listening</span>' in channels
