"""Running services for the tests, the bases in turn, and the service's log beside a failure."""

from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from engine.interchange.rest.resource.catalogue import INDEXERS
from engine.interchange.store.verify import verify
from tests.interchange.kit import BASES, Inside, Outside, Running, running, running_inside
from tests.interchange.pair import Pair, running_pair
from tests.interchange.places import Server
from tests.interchange.process import PROGRAM
from tests.postgresql import new_database, running_postgres


@pytest.fixture(scope="session", autouse=True)
def server(request: pytest.FixtureRequest) -> Iterator[None]:
    """With `--postgresql`, the server that has the databases of all services."""
    if not request.config.getoption("--postgresql"):
        yield
        return
    with running_postgres() as Server.address:
        yield


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """A PostgreSQL server that many tests share, a database each."""
    with running_postgres() as address:
        yield address


@pytest.fixture
def database(postgres_server: str) -> Iterator[str]:
    """The address of an empty database of the test's own."""
    with new_database(postgres_server) as address:
        yield address


@pytest.fixture(scope="module")
def pair(postgres_server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Two services on one database, for tests that do not mind each other's patients."""
    with new_database(postgres_server) as address, running_pair(tmp_path_factory.mktemp("pair"), address) as found:
        yield found
        found.sound()


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One service, started as its users start it, for all tests that do not mind each other's patients.

    What they leave behind must fit together.
    """
    with running(tmp_path_factory.mktemp("interchange"), command=PROGRAM) as found:
        yield found
    assert verify(found.database, INDEXERS).faults == {}


@pytest.fixture
def own_service(tmp_path: Path) -> Iterator[Running]:
    """A service of the test's own, empty."""
    with running(tmp_path) as found:
        yield found


@pytest.fixture
def inside(tmp_path: Path) -> Iterator[Inside]:
    """A service of the test's own in a thread, for tests that must see or change what is inside."""
    with running_inside(tmp_path) as found:
        yield found


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the end of the service's log beside a failure."""
    report = yield
    if report.failed:
        for value in getattr(item, "funcargs", {}).values():
            if isinstance(value, Outside):
                report.sections.append(("log of the service", value.process.log.read_text()[-4000:]))
    return report


@pytest.fixture(params=["R4", "STU3"])
def base(request: pytest.FixtureRequest) -> str:
    """Each FHIR base in turn."""
    return BASES[request.param]
