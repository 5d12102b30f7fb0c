"""Fixtures of the crash tests: those of the whole engine."""

from tests.flow.conftest import full_sweep, rig, seed

__all__ = ["full_sweep", "rig", "seed"]
