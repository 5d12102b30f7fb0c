"""Commands that are read from their modules when they are called: an offline check need not wait for servers."""

import re
from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import Any, ClassVar, Final

import typer
from typer._click.shell_completion import CompletionItem
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

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the first word names, and the rest; a name that is none is told with the nearest."""
        name = args[0]
        if not name.startswith("-") and not ctx.resilient_parsing and self.get_command(ctx, name) is None:
            near = " or ".join(f"'{one}'" for one in get_close_matches(name, self.list_commands(ctx)))
            ctx.fail(f"No such command '{name}'." + (f" Did you mean {near}?" if near else ""))
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: Any, incomplete: str) -> list[CompletionItem]:
        """Return the names that begin so; no module is read for them: whoever presses Tab waits for the answer."""
        names = [one for one in self.list_commands(ctx) if one.startswith(incomplete)]
        return [CompletionItem(one) for one in names] or super().shell_complete(ctx, incomplete)


def _unwrap(command: Any) -> None:
    """Take the line ends of the code out of what a command and those within it say: the terminal wraps by its width."""
    command.help = LINE_END.sub(" ", command.help or "")
    for one in getattr(command, "commands", {}).values():
        _unwrap(one)


def nothing() -> None:
    """Make a Typer application that has this callback a group, whatever number of commands it holds."""
