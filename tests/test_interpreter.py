"""The interpreter of a process that loads much, then runs for long, with threads beside its loop."""

import gc
import sys
from contextlib import ExitStack

from engine import interpreter


def test_no_cycles_are_looked_for_while_loading() -> None:
    """Looks stop while something is loaded, also where it fails, and go on after it; one within another is harmless."""
    assert gc.isenabled()
    with interpreter.loading():
        with interpreter.loading():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_turns_are_shorter_while_anybody_works() -> None:
    """Two at work share short turns until the last one is done, whoever began; then all is as it was."""
    usual, turns = sys.getswitchinterval(), interpreter.ShortTurns()
    first, second = ExitStack(), ExitStack()
    for one in (first, second):
        one.enter_context(turns.taken())
    first.close()
    assert round(sys.getswitchinterval(), 6) == interpreter.TURN_SECONDS
    second.close()
    assert sys.getswitchinterval() == usual
