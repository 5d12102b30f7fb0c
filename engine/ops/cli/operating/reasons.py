"""`adt-engine reasons`: what a reason means, whether it can wait until morning, and what to do next."""

from typing import Annotated

import typer

from engine.ops.terminal.options import Json
from engine.ops.terminal.table import NEGATIVE, POSITIVE, cell, output, say_json, table
from engine.ops.views.reasons import Reason, lines, reason_of


def reasons(
    code: Annotated[str, typer.Argument(help="One code; all of them without it.")] = "",
    kind: Annotated[str, typer.Option(help="Only codes of this kind, such as held or alert.")] = "",
    as_json: Json = False,
) -> None:
    """Say what a reason means, whether it can wait until morning, and what to do next.

    Example: adt-engine reasons ambiguous-identity
    """
    rows = lines(code, kind)
    if as_json:
        say_json(rows)
        return
    if code:
        _say(reason_of(code))
        return
    headings = ("Code", "Kind", "Wait?", "What it means", "What to do next")
    output().print(table(headings, map(_row, rows)))


def _say(reason: Reason) -> None:
    wait = "This can wait until morning." if reason.can_wait else "This cannot wait until morning."
    for text in (f"{reason.code} ({', '.join(reason.kinds) or 'not of this engine'})", reason.meaning, wait):
        output().print(cell(text), soft_wrap=True)
    output().print(cell(f"Next: {reason.next_step}"), soft_wrap=True)


def _row(reason: Reason) -> tuple[object, ...]:
    wait = cell("until morning", POSITIVE) if reason.can_wait else cell("no", NEGATIVE)
    return reason.code, ", ".join(reason.kinds), wait, reason.meaning, reason.next_step
