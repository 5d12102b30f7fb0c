"""Long work on the journal from the terminal: how far its steps have come, and how it ends early."""

import contextlib
from collections.abc import Iterator
from types import FrameType

from rich.progress import TaskID

from engine.journal.maintenance.backup import Progress
from engine.terminal.table import progress


@contextlib.contextmanager
def steps(*, shown: bool) -> Iterator[Progress]:
    """Show how far one step after the other has come."""
    with progress(shown=shown) as bar:
        tasks: dict[str, TaskID] = {}

        def watch(what: str, done: int, of: int) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(what, total=of)
            bar.update(tasks[what], completed=done, total=of)

        yield watch


def end(number: int, _frame: FrameType | None) -> None:
    """End as after Ctrl-C, so that nothing half done is left; for a signal."""
    raise SystemExit(128 + number)
