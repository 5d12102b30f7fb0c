"""Commands that are read from their modules when they are called: an offline check need not wait for servers."""

import re
from collections.abc import Mapping
from importlib import import_module
from typing import Any, ClassVar, Final

import typer
from typer.core import TyperGroup

from engine import garbage

LINE_END: Final = re.compile(r"(?<!\n)\n(?!\n) *")


class LazyGroup(TyperGroup):
    """A group of commands; `where` says of each in which module it stands, as `module:name`."""

    where: ClassVar[Mapping[str, str]] = {}

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands."""
        return [*super().list_commands(ctx), *self.where]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command; None where there is none of the name."""
        if cmd_name not in self.where:
            return super().get_command(ctx, cmd_name)
        module, _, name = self.where[cmd_name].partition(":")
        with garbage.loading():
            found = getattr(import_module(module), name)
        holder = typer.Typer(callback=nothing)
        if isinstance(found, typer.Typer):
            holder.add_typer(found, name=cmd_name)
        else:
            holder.command(cmd_name)(found)
        made = typer.main.get_group(holder).commands[cmd_name]
        _unwrap(made)
        return made


def _unwrap(command: Any) -> None:
    """Take the line ends of the code out of what a command and those within it say: the terminal wraps by its width."""
    command.help = LINE_END.sub(" ", command.help or "")
    for one in getattr(command, "commands", {}).values():
        _unwrap(one)


def nothing() -> None:
    """Make a Typer application that has this callback a group, whatever number of commands it holds."""
