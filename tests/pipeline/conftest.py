"""The journal of these tests is a real one, as in tests/journal."""

from tests.journal.conftest import desk, opened

__all__ = ["desk", "opened"]
