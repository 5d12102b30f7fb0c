"""Asking the running engine from a command: its answer, or in one line why there is none."""

from pathlib import Path
from typing import TypeVar

from engine.errors import AdtEngineError
from engine.ops.operations.operation import Operation, Reading
from engine.ops.socket import admin

A = TypeVar("A")


def asked(data: Path, operation: type[Operation[A]], **given: object) -> A:
    """Ask the engine that runs on a data folder; AdtEngineError where none does, or for what it refuses."""
    try:
        return admin.ask(data, operation, given)
    except ConnectionError as error:
        raise AdtEngineError(
            f"no engine runs on {data}, and only a running engine writes its journal and audit trail: start it with "
            f"`adt-engine run --data {data}`, then try again"
        ) from error


def asked_if_running(data: Path, operation: type[Operation[A]], **given: object) -> A | None:
    """Ask the engine that runs on a data folder; None where none does."""
    try:
        return admin.ask(data, operation, given)
    except ConnectionError:
        return None


def asked_or_read(data: Path, operation: type[Reading[A]], **given: object) -> A:
    """Ask the running engine, or read the journal's file where none runs; the file is never written here."""
    try:
        return admin.ask(data, operation, given)
    except ConnectionError:
        return operation.parse(given).read(data)
