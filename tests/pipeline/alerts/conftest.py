"""The journal of these tests is a real one."""

from tests.journal.conftest import desk, opened

__all__ = ["desk", "opened"]
