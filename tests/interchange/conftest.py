"""Running services for the tests, and the bases in turn."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interchange.kit import BASES, Running, running


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One service for all tests that do not mind each other's patients."""
    with running(tmp_path_factory.mktemp("interchange")) as found:
        yield found


@pytest.fixture
def own_service(tmp_path: Path) -> Iterator[Running]:
    """A service of the test's own, empty."""
    with running(tmp_path) as found:
        yield found


@pytest.fixture(params=["R4", "STU3"])
def base(request: pytest.FixtureRequest) -> str:
    """Each FHIR base in turn."""
    return BASES[request.param]
