"""`adt-engine mappings`: check, try, test and explain what interface analysts write, without an engine or a server."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final

import orjson
import typer
from rich.console import Console

from engine.config.channel import Channel
from engine.config.source import read, validate
from engine.errors import ConfigurationError, MessageError, UsageError
from engine.hl7.message import parse
from engine.mapping.case import Case, channel_of, differences, read_cases, run_case
from engine.mapping.compile import Mapping, compile_mapping, load
from engine.mapping.expectation import rewrite
from engine.mapping.outcome import outcome
from engine.ops.authored import folders_of, messages_in
from engine.ops.explain import explain_
from engine.ops.options import Json, Mappings

ABSENT: Final = "\N{EM DASH}"

app = typer.Typer(name="mappings", help="Check, try, test and explain mappings.", no_args_is_help=True)

app.command(name="explain")(explain_)

Name = Annotated[str, typer.Option("--name", help="The mapping, as channels name it.")]


@app.command()
def check(mappings: Mappings = None, name: Name = "adt", as_json: Json = False) -> None:
    """Check every mapping file: all problems at once, each with file, line and column.

    Exit 0 if there is none, 1 otherwise.

    Example: adt-engine mappings check --mappings mappings
    """
    try:
        found = load(folders_of(mappings), name)
    except ConfigurationError as error:
        if as_json:
            _print_json({"mapping": name, "problems": [problem._asdict() for problem in error.problems]})
        else:
            for problem in error.problems:
                _error(str(problem))
        raise typer.Exit(1) from error
    if as_json:
        _print_json({"mapping": name, "hash": found.hash, "problems": []})
    else:
        documents = sum(1 for _ in found.documents.everything())
        typer.echo(f"{name}: {documents} files, no problem; {found.hash[:12]}")


@app.command(name="try")
def try_(
    files: Annotated[list[Path], typer.Argument(help="Files of HL7 messages.", metavar="FILE...")],
    channel: Annotated[Path | None, typer.Option("--channel", help="Map as on the channel of this file.")] = None,
    mappings: Mappings = None,
    name: Annotated[str, typer.Option("--name", help="The mapping; by default the channel's own.")] = "",
    as_json: Json = False,
) -> None:
    """Show what a mapping makes of messages: subject, plan and resource. Nothing is sent.

    The output holds patient data. Exit 0 if every message could be mapped or is filtered, 1 otherwise.

    Example: adt-engine mappings try samples/a01.hl7 --channel channels/riverbend-adt.yaml
    """
    on = validate(read(channel), Channel) if channel else channel_of({})
    mapping = compile_mapping(load(folders_of(mappings), name or on.mapping), on)
    made = [_made(mapping, raw) for file in files for raw in messages_in(file)]
    if as_json:
        _print_json(made)
    else:
        typer.echo("\n\n".join("\n".join(_told(one)) for one in made))
    if any("error" in one or one["action"] == "refuse" for one in made):
        raise typer.Exit(1)


@app.command(name="test")
def run_cases(
    files: Annotated[list[Path] | None, typer.Argument(help="Case files; by default all of tests/.")] = None,
    mappings: Mappings = None,
    name: Name = "adt",
    update: Annotated[bool, typer.Option("--update", help="Write what is found into the files.")] = False,
    as_json: Json = False,
) -> None:
    """Run the cases that stand beside a mapping and show what differs.

    Exit 0 if nothing differs, 1 otherwise; with --update the files are rewritten where something does.

    Example: adt-engine mappings test --mappings mappings
    """
    folders = folders_of(mappings)
    mapping = load(folders, name)
    chosen = files or [file for folder in dict.fromkeys(folders) for file in sorted((folder / "tests").glob("*.yaml"))]
    if not chosen:
        raise UsageError("there are no case files; write some in tests/ beside the mapping")
    cases = read_cases(chosen)
    results = [(case, found := run_case(case, mapping), differences(case, found)) for case in cases]
    failed = [(case, found, told) for case, found, told in results if told]
    if update:
        rewrite([(case, found) for case, found, _ in failed])
    if as_json:
        _print_json({"cases": len(cases), "failed": [_failure(case, told) for case, _, told in failed]})
    else:
        _tell(failed, len(cases), update=update)
    if failed and not update:
        raise typer.Exit(1)


def _tell(failed: list[tuple[Case, dict[str, Any], tuple[str, ...]]], count: int, *, update: bool) -> None:
    for case, _, told in failed:
        typer.echo(f"{case.source.file}:{case.line}: {case.name}")
        for line in told:
            typer.echo(f"    {line}")
    outcome_ = "updated" if update else "differ"
    typer.echo(f"{count} cases, {len(failed)} {outcome_}")


def _failure(case: Case, told: tuple[str, ...]) -> dict[str, Any]:
    return {"file": case.source.file, "line": case.line, "case": case.name, "differences": list(told)}


def _made(mapping: Mapping, raw: bytes) -> dict[str, Any]:
    try:
        message = parse(raw)
    except MessageError as error:
        return {"rule": "", "action": "refuse", "error": str(error)}
    return {"event": message.trigger, "control_id": message.control_id, **outcome(mapping, message)}


def _told(made: dict[str, Any]) -> Iterator[str]:
    yield f"{made.get('event') or 'message'} {made.get('control_id', '')}: {made['action']} ({made['rule'] or ABSENT})"
    for name in ("patients", "visit", "event_at", "findings", "flags", "error", "warnings"):
        value = made.get(name)
        if value:
            yield f"  {name:<12} {_line(value)}"
    for one in made.get("interactions", ()):
        yield ""
        yield f"  {_asked(one)}"
        for name in ("identities", "sources", "reactivate", "stand_in", "status", "clears", "slices", "deletes"):
            if one.get(name):
                yield f"    {name:<12} {_line(one[name])}"
        text = orjson.dumps(one.get("patient") or one.get("resource"), option=orjson.OPT_INDENT_2).decode()
        yield from (f"    {line}" for line in text.splitlines())


def _asked(one: dict[str, Any]) -> str:
    """Return in a few words what an interaction asks."""
    if "keep" in one:
        return f"keep {one['keep']}; if absent: {one['if_absent']}"
    if "merge" in one:
        return f"merge {one['merge']} into {one['into']}"
    if "rename" in one:
        return f"rename {_line(one['rename'])} to {_line(one['to'])}"
    link = next((word for word in ("link", "unlink") if word in one), None)
    return f"{link} {one[link]} and {one['and']}" if link else str(one["upsert"])


def _line(value: Any) -> str:
    if isinstance(value, list):
        return "; ".join(_line(part) for part in value)
    return "yes" if value is True else str(value)


def _print_json(value: Any) -> None:
    typer.echo(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode())


def _error(text: str) -> None:
    Console(stderr=True, highlight=False, soft_wrap=True).print(text, markup=False)
