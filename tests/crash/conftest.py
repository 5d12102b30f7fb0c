"""Fixtures of the crash tests: those of the whole engine."""

from tests.flow.conftest import rig, seed

__all__ = ["rig", "seed"]
