import sys
from contextlib import ExitStack

from engine.interchange.network.patient360.retrieve import SECONDS, PollingTurns


def test_turns_are_shorter_while_anybody_works() -> None:
    """Two at work share short turns until the last one is done, whoever began; then all is as it was."""
    usual, turns = sys.getswitchinterval(), PollingTurns()
    first, second = ExitStack(), ExitStack()
    for one in (first, second):
        one.enter_context(turns.shorter())
    first.close()
    assert round(sys.getswitchinterval(), 6) == SECONDS
    second.close()
    assert sys.getswitchinterval() == usual
