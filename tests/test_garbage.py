"""The garbage collection of a process that loads much and then runs for long."""

import gc

from engine import garbage


def test_no_cycles_are_looked_for_while_loading() -> None:
    """Looks stop while something is loaded, also where it fails, and go on after it; one within another is harmless."""
    assert gc.isenabled()
    with garbage.loading():
        with garbage.loading():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()
