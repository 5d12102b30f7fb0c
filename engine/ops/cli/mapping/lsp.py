"""`adt-engine mappings lsp`: the language server of mapping files, which editors start."""

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Final

import typer

from engine.errors import UsageError
from engine.ops.cli.mapping.mappings import messages_in
from engine.terminal.options import Mappings

LIBRARY: Final = "pygls"
EXTRA: Final = "editor"
SERVER: Final = "engine.ops.editor.language_server"
Example = Annotated[
    Path | None,
    typer.Option("--example", help="A message, or a folder of messages, to show the values of lines; else the cases'."),
]


def lsp(mappings: Mappings = None, example: Example = None) -> None:
    """Serve editors over standard input and output: mistakes as typed, completion, hover, go to the shipped rule.

    It needs the extra `editor`: pip install 'adt-engine[editor]'. Without --mappings each file says by its place which
    folder it is of.

    Example: adt-engine mappings lsp --mappings my-mappings
    """
    if find_spec(LIBRARY) is None:
        raise UsageError(
            f"the language server needs {LIBRARY}, which is not installed: pip install 'adt-engine[{EXTRA}]'"
        )
    if mappings is not None and not mappings.is_dir():
        raise UsageError(f"{mappings} is not a folder; --mappings takes a folder of mapping files")
    if example is not None and not example.exists():
        raise UsageError(f"{example} does not exist; --example takes a message file or a folder of them")
    import_module(SERVER).serve(mappings, example, messages_in)
