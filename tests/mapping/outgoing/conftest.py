"""Shared by the tests of outgoing mappings: the shipped one, and what it makes of a patient."""

from datetime import UTC, datetime

import pytest

from engine.config.settings import shipped
from engine.mapping.outgoing.compile import OutgoingSource, read_outgoing

NOW = datetime(2026, 3, 2, 8, 3, tzinfo=UTC)


@pytest.fixture(scope="session")
def outgoing() -> OutgoingSource:
    """The shipped outgoing mapping, read once."""
    return read_outgoing([shipped("mappings")])
