"""Asking the running engine from a command: its answer, or in one line why there is none."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.errors import AdtEngineError
from engine.ops.socket import admin


def asked(data: Path, act: str, given: Mapping[str, Any]) -> Any:
    """Ask the engine that runs on a data folder; AdtEngineError where none does, or for what it refuses."""
    try:
        return admin.ask(data, act, given)
    except ConnectionError as error:
        raise AdtEngineError(
            f"no engine runs on {data}: start it with `adt-engine run --data {data}`, then try again"
        ) from error


def asked_if_running(data: Path, act: str, given: Mapping[str, Any]) -> Any:
    """Ask the engine that runs on a data folder; None where none does."""
    try:
        return admin.ask(data, act, given)
    except ConnectionError:
        return None
