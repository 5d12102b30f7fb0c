"""Two real processes of the service on one PostgreSQL database, asked in turn as a balancer would."""

import contextlib
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

from engine.interchange.core.audit.recorder import verify_log
from engine.interchange.rest.resource.catalogue import INDEXERS
from engine.interchange.store.verify import verify
from tests.interchange.kit import Outside, Running, running


class Pair(Running):
    """Two processes that look like one service: each request goes to the other one than that before it."""

    def __init__(self, first: Outside, second: Outside) -> None:
        self.processes = (first, second)
        self._turns = cycle(self.processes)
        super().__init__(first.settings, "", first.port, first.database, first.http)

    @property
    def url(self) -> str:  # type: ignore[override] # who asks for it means whose turn it is
        """The address of the process whose turn it is."""
        return next(self._turns).url

    @url.setter
    def url(self, _: str) -> None:
        """Leave it to the processes."""

    def sound(self) -> None:
        """Hold that the database fits together, and that nothing is missing in the chain of the access log."""
        assert verify(self.database, INDEXERS).faults == {}
        assert verify_log(self.database).faults == ()


@contextlib.contextmanager
def running_pair(folder: Path, database: str, **changes: Any) -> Iterator[Pair]:
    """Run two processes on a database until the block ends; they must then stop in order."""
    folders = [folder / name for name in ("first", "second")]
    for one in folders:
        one.mkdir(exist_ok=True)
    with contextlib.ExitStack() as stack:
        first, second = (stack.enter_context(running(one, database=database, **changes)) for one in folders)
        yield Pair(first, second)
