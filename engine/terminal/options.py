"""Options that several commands share, what they ask before they act, and how a check ends."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final

import typer
from typer.models import ParameterInfo

from engine.config.settings import DATA_VARIABLE
from engine.errors import ConfigurationError, Problem, UsageError
from engine.terminal.table import errors, print_json

DATA: Final = Path("adt-data")
CHANNELS: Final = Path("channels")
ADMIN: Final = "127.0.0.1:8081"
DATABASE: Final = "sqlite:///adt-data/interchange.db"

Data = Annotated[
    Path,
    typer.Option("--data", envvar=DATA_VARIABLE, help="The engine's data folder (journal, admin socket)."),
]
Journal = Annotated[
    str,
    typer.Option(
        "--journal",
        metavar="URL",
        help="A PostgreSQL database that nodes share, postgresql://USER@HOST/NAME, for a journal in the data folder. "
        "The password comes from PGPASSWORD, PGPASSFILE or ~/.pgpass. The data folder remembers it.",
    ),
]
Node = Annotated[
    str, typer.Option("--node", metavar="NAME", help="What this node is called; else by its host and data folder.")
]
AcceptEmptyJournal = Annotated[
    bool,
    typer.Option("--accept-empty-journal", help="Start with an empty journal though the one of this folder is gone."),
]
AcceptNewAccessKey = Annotated[
    bool,
    typer.Option("--accept-new-access-key", help="Start with an access.key that the journal was not used with."),
]
Channels = Annotated[Path, typer.Option("--channels", help="The folder of channel files.")]
Mappings = Annotated[
    Path | None, typer.Option("--mappings", help="A folder of mapping files that add to the shipped ones.")
]
PublishMappings = Annotated[
    bool,
    typer.Option(
        "--publish-mappings",
        help="Let authors put mapping files in force from the pages: the --mappings folder is written.",
    ),
]
MappingName = Annotated[str, typer.Option("--name", help="The mapping, as channels name it.")]
Database = Annotated[
    str,
    typer.Option(
        "--database",
        help="Where patients and tokens are kept: sqlite:///PATH, or postgresql://USER@HOST/NAME with the password in"
        " PGPASSWORD, PGPASSFILE or ~/.pgpass.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Write JSON.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]
LIMIT: Final[ParameterInfo] = typer.Option(50, min=1, max=1000, help="How many to show, newest first.")
Admin = Annotated[
    str, typer.Option("--admin", help="HOST:PORT of the operators' pages and the API; beyond loopback only with TLS.")
]
AdminCertificate = Annotated[
    Path | None,
    typer.Option("--admin-certificate", help="The pages' certificate chain (PEM); makes one-time codes required."),
]
AdminAllow = Annotated[
    list[str] | None,
    typer.Option("--admin-allow", help="A network (CIDR) that may open the pages; default: any."),
]
AdminKey = Annotated[Path | None, typer.Option("--admin-key", help="The private key of that certificate (PEM).")]
Offline = Annotated[
    bool, typer.Option("--offline", help="Skip what only the target machine has: secrets, certificates.")
]
Strict = Annotated[bool, typer.Option("--strict", help="Treat warnings as errors.")]


def agreed(question: str, *, yes: bool, as_json: bool) -> bool:
    """Ask on standard error, unless `yes`; UsageError with `as_json`, whose reader is a program."""
    if as_json and not yes:
        raise UsageError("add --yes: --json asks for no confirmation")
    return yes or typer.confirm(question, err=True)


def conclude_json(
    counts: Mapping[str, object], problems: Sequence[Problem], warnings: Sequence[Problem], *, strict: bool
) -> None:
    """Write how a check ended as JSON, and end with exit 2 where `conclude` would."""
    found = {"problems": problems, "warnings": warnings}
    print_json({**counts, **{name: [one._asdict() for one in some] for name, some in found.items()}})
    if problems or (strict and warnings):
        raise typer.Exit(2)


def conclude(problems: Sequence[Problem], warnings: Sequence[Problem], *, strict: bool) -> str:
    """Print warnings and say in a few words how a check ended; ConfigurationError holds every problem.

    `strict`: warnings are problems, too.
    """
    for warning in () if strict else warnings:
        errors().print(f"warning: {warning}", markup=False, soft_wrap=True)
    wrong = (*problems, *(warnings if strict else ()))
    if wrong:
        raise ConfigurationError(wrong)
    return f"warnings: {len(warnings)}" if warnings else "no problems"
