import sys

import pytest

from engine.interchange.patient360.turns import SECONDS, Turns


def test_turns_are_shorter_while_anybody_works() -> None:
    """Two at work share short turns until the last one is done; then all is as it was, after a failure too."""
    usual, turns = sys.getswitchinterval(), Turns()
    with pytest.raises(ZeroDivisionError), turns.shorter():
        with turns.shorter():
            assert round(sys.getswitchinterval(), 6) == SECONDS
        assert round(sys.getswitchinterval(), 6) == SECONDS
        assert 1 / 0
    assert sys.getswitchinterval() == usual
