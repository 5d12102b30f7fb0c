"""Reading the journal of a folder as a command does where no engine runs: parse, read, answer as JSON."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from engine.ops.operations.operation import Reading


def reading(operation: type[Reading[Any]]) -> Callable[[Path, Mapping[str, Any]], Any]:
    """Return a function of a folder and of what is asked, which returns the answer as JSON-able values."""
    return lambda folder, given: operation.to_json(operation.parse(given).read(folder))
