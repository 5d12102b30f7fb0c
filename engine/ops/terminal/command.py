"""Commands made of operations: options from a request's fields, the engine asked, its answer printed or as JSON."""

from collections.abc import Callable, Mapping, Sequence
from functools import update_wrapper
from inspect import Parameter, Signature, signature
from pathlib import Path
from types import GenericAlias
from typing import Any, Concatenate, Final, TypeVar, cast, get_args, get_origin

import typer
from pydantic.fields import FieldInfo
from typer.models import ParameterInfo

from engine.errors import UnreachableError
from engine.ops.operations.fields import NUMBERED, bounds_of, entry_of
from engine.ops.operations.filters import PageOf
from engine.ops.operations.operation import Operation, Reading, Request
from engine.ops.socket import client
from engine.ops.terminal.completion import OF_FIELDS
from engine.terminal.options import DATA, AsJson, Data
from engine.terminal.table import print_json

A = TypeVar("A")
R = TypeVar("R", bound=Request)
E = TypeVar("E", bound=Operation[Any])

# How a field is written where not as an option of its name: `--channel` is another option, `ENTRY` an argument and
# `[ENTRY]` one that may be left out; or the option as typer takes it, or None for a field that is not offered.
Written = ParameterInfo | str | None
ENTRIES: Final = "ENTRY..."
TEXTS: Final = ("__module__", "__name__", "__doc__")
READERS: Final[Mapping[str, Callable[[str], int]]] = {**NUMBERED, "entries": entry_of}


def takes(request: type[R], **written: Written) -> Callable[[Callable[Concatenate[R, ...], None]], Callable[..., None]]:
    """Give a command an option for each field of a request; it is called with the request and with its own options."""

    def decorate(command: Callable[Concatenate[R, ...], None]) -> Callable[..., None]:
        return _with_options(command, _parameters(request, written), request.parse)

    return decorate


def takes_entries(
    operation: type[E], **written: Written
) -> Callable[[Callable[Concatenate[Sequence[E], ...], None]], Callable[..., None]]:
    """Give a command of several entries the options of an operation on one; it is called with a request for each."""

    def requests(given: Mapping[str, object]) -> list[E]:
        entries = cast("list[int]", given["entry"])
        return [operation.parse({**given, "entry": entry}) for entry in sorted(set(entries))]

    def decorate(command: Callable[Concatenate[Sequence[E], ...], None]) -> Callable[..., None]:
        return _with_options(command, _parameters(operation, {**written, "entry": ENTRIES}), requests)

    return decorate


def asks(operation: type[Operation[A]], **written: Written) -> Callable[[Callable[[A], None]], Callable[..., None]]:
    """Make a command of an operation: it asks the engine, and hands the answer to what prints it, or prints JSON.

    What only reads the journal is read from the file where no engine runs.
    """

    def decorate(show: Callable[[A], None]) -> Callable[..., None]:
        def command(request: Operation[A], data: Data = DATA, as_json: AsJson = False) -> None:
            answer = ask_or_read(data, request) if isinstance(request, Reading) else ask(data, request)
            (print_json if as_json else show)(answer)

        return takes(operation, **written)(update_wrapper(command, show, TEXTS))

    return decorate


def ask(data: Path, request: Operation[A]) -> A:
    """Ask the engine that runs on a data folder; UnreachableError where none runs, AdtEngineError for a refusal."""
    answer = ask_if_running(data, request)
    if answer is None:
        raise UnreachableError(
            f"no engine runs on {data}, and only a running engine writes its journal and audit trail: start it with "
            f"`adt-engine run --data {data}`, then try again"
        )
    return answer


def ask_or_read(data: Path, request: Reading[A]) -> A:
    """Ask the running engine, or read the journal's file where none runs; the file is never written here."""
    answer = ask_if_running(data, request)
    return request.read(data) if answer is None else answer


def ask_if_running(data: Path, request: Operation[A]) -> A | None:
    """Ask the engine that runs on a data folder; None where none does."""
    try:
        return client.ask(data, type(request), request.given())
    except ConnectionError:
        return None


def _with_options(
    command: Callable[..., None], options: Sequence[Parameter], read: Callable[[Mapping[str, object]], object]
) -> Callable[..., None]:
    """Return a command for typer: it reads the options into what it calls `command` with."""
    own = list(signature(command, follow_wrapped=False).parameters.values())[1:]

    def called(**values: object) -> None:
        named = {name: values.pop(name) for name in (one.name for one in own)}
        command(read({name: value for name, value in values.items() if value not in ("", None)}), **named)

    made = update_wrapper(called, command, TEXTS)
    made.__signature__ = Signature(  # type: ignore[attr-defined]  # what typer makes the options of
        [*options, *(one.replace(kind=Parameter.KEYWORD_ONLY) for one in own)]
    )
    return made


def _parameters(request: type[Request], written: Mapping[str, Written]) -> list[Parameter]:
    """Return a parameter for each field; which page of a list comes last."""
    fields = sorted(request.names().items(), key=lambda one: one[0] in PageOf.model_fields)
    return [_parameter(name, field, how) for name, field in fields if (how := written.get(name, "")) is not None]


def _parameter(name: str, field: FieldInfo, how: ParameterInfo | str) -> Parameter:
    listed = get_args(field.annotation)[0] if get_origin(field.annotation) is tuple else None
    kind = listed or (field.annotation if field.annotation in {bool, int, float} else str)
    is_list = listed is not None or how == ENTRIES
    option = how if isinstance(how, ParameterInfo) else _option(name, field, how, optional=is_list or name in READERS)
    annotation = GenericAlias(list, (kind,)) | None if is_list else kind
    return Parameter(name, Parameter.KEYWORD_ONLY, default=option, annotation=annotation)


def _option(name: str, field: FieldInfo, how: str, *, optional: bool) -> ParameterInfo:
    """Return what typer takes for a field; `optional`: None where it is left out, else what the field has."""
    reader, text = READERS.get(name), field.description
    is_argument = bool(how) and not how.startswith("--")
    is_needed = field.is_required() or (is_argument and not how.startswith("["))
    default = ... if is_needed else None if optional else field.default if field.default is not None else ""
    if is_argument:
        return typer.Argument(  # type: ignore[no-any-return]
            default, metavar=how, parser=reader, help=text, autocompletion=OF_FIELDS.get(name)
        )
    least, most = (None if reader else bounds_of(field)) or (None, None)
    return typer.Option(  # type: ignore[no-any-return]
        default,
        how or f"--{name.replace('_', '-')}",
        metavar=name.upper() if reader else None,
        parser=reader,
        help=text,
        autocompletion=OF_FIELDS.get(name),
        min=least,
        max=most,
    )
