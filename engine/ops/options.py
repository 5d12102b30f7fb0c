"""Options that several commands share, and how a command ends."""

from pathlib import Path
from typing import Annotated, Final

import typer

DATA: Final = Path("adt-data")
CHANNELS: Final = Path("channels")

Data = Annotated[Path, typer.Option("--data", help="The engine's data folder (journal, admin socket).")]
Channels = Annotated[Path, typer.Option("--channels", help="The folder of channel files.")]
Mappings = Annotated[Path | None, typer.Option("--mappings", help="A folder of mapping files beside the shipped ones.")]
Json = Annotated[bool, typer.Option("--json", help="Write JSON.")]
