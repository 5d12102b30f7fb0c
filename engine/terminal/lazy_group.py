"""Groups of commands by a table of their names and lines of help: a command is imported when it is run."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from importlib import import_module
from typing import Any, ClassVar, Final, Self

import typer
from typer._click.shell_completion import CompletionItem
from typer.core import TyperCommand, TyperGroup

from engine import interpreter

LINE_END: Final = re.compile(r"(?<!\n)\n(?!\n) *")


@dataclass(frozen=True, slots=True)
class Command:
    """A command in a table: the first line of its help, and its function as `module:name`.

    A group has `commands`; those of them without a place are found in the Typer application that is the group's.
    """

    help: str
    place: str = ""
    commands: "Mapping[str, Command]" = field(default_factory=dict)

    def places(self) -> Iterator[str]:
        """Yield where it and the commands within it are."""
        if self.place:
            yield self.place
        for command in self.commands.values():
            yield from command.places()


class LazyGroup(TyperGroup):
    """A group whose help, completion and nearest names come from its table, and import no command."""

    table: ClassVar[Mapping[str, Command]] = {}

    def __init__(self, *, listed: Command | None = None, above: Self | None = None, **options: Any) -> None:
        super().__init__(**options)
        self._place = listed.place if listed else ""
        self._above = above
        self.listed = listed.commands if listed else self.table

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands."""
        return [*super().list_commands(ctx), *self.listed]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command; None where there is none of the name."""
        listed = self.listed.get(cmd_name)
        if listed is None:
            return super().get_command(ctx, cmd_name)
        if listed.commands:
            return LazyGroup(listed=listed, above=self, name=cmd_name, help=listed.help, no_args_is_help=True)
        made = _imported(listed.place, cmd_name) if listed.place else self.written().commands[cmd_name]
        _unwrap(made)
        return made

    def written(self) -> Any:
        """Return the group as its module writes it."""
        if self._place or self._above is None:
            return _imported(self._place, str(self.name))
        return self._above.written().commands[self.name]

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the first word names, and the rest; an unknown name is refused with the nearest."""
        name, names = args[0], self.list_commands(ctx)
        if not name.startswith("-") and not ctx.resilient_parsing and name not in names:
            near = " or ".join(f"'{close_match}'" for close_match in get_close_matches(name, names))
            ctx.fail(f"No such command '{name}'." + (f" Did you mean {near}?" if near else ""))
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: Any, incomplete: str) -> list[CompletionItem]:
        """Return the names that begin so."""
        names = [command for command in self.list_commands(ctx) if command.startswith(incomplete)]
        return [CompletionItem(name) for name in names] or super().shell_complete(ctx, incomplete)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help, with each command's line from the table."""
        lines = {name: TyperCommand(name, help=one.help) for name, one in self.listed.items()}
        TyperGroup(name=self.name, help=self.help, params=self.params, commands={**self.commands, **lines}).format_help(
            ctx, formatter
        )


def load(place: str) -> Any:
    """Return what `module:name` names."""
    module, _, name = place.partition(":")
    with interpreter.loading():
        return getattr(import_module(module), name)


def _imported(place: str, name: str) -> Any:
    """Return a function or a Typer application as a command of that name."""
    found = load(place)
    holder = typer.Typer(callback=nothing)
    if isinstance(found, typer.Typer):
        holder.add_typer(found, name=name)
    else:
        holder.command(name)(found)
    return typer.main.get_group(holder).commands[name]


def _unwrap(command: Any) -> None:
    """Take the line ends of the code out of what a command and those within it say: the terminal wraps by its width."""
    command.help = LINE_END.sub(" ", command.help or "")
    for one in getattr(command, "commands", {}).values():
        _unwrap(one)


def nothing() -> None:
    """Make a Typer application that has this callback a group, whatever number of commands it holds."""
