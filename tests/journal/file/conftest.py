"""What is said of SQLite's file is tried with it alone."""

import pytest


@pytest.fixture
def address() -> str:
    """Give no address: the journal is in its folder."""
    return ""
