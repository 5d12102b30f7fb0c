"""The table of clients.md: which FHIR client makes which call, in which version, at which bases."""

import re
from pathlib import Path
from typing import Final

PAGE: Final = (Path(__file__).parents[3] / "engine/interchange/clients.md").read_text("utf-8")
NO_CALL: Final = "–"


def _columns() -> dict[str, dict[str, str]]:
    """Return the table by client: what stands in the row of each name."""
    lines = PAGE.split("<!-- calls -->\n", 1)[1].split("\n<!-- /calls -->", 1)[0].splitlines()
    heads, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    names = [row[0].strip("`") for row in rows]
    return {client: dict(zip(names, cells, strict=True)) for client, *cells in zip(heads, *rows, strict=True)}


def _call(cell: str) -> str:
    found = re.fullmatch(r"`([\w.]+)`", cell)
    assert found, cell
    return found[1]


_TABLE: Final = {client: column for client, column in _columns().items() if client}
VERSIONS: Final = {client: column.pop("version") for client, column in _TABLE.items()}
BASES: Final = {client: column.pop("bases").split(", ") for client, column in _TABLE.items()}
# By client and verb, what is called; a verb that the client has no call for is not there.
CALLS: Final = {
    client: {verb: _call(cell) for verb, cell in column.items() if cell != NO_CALL} for client, column in _TABLE.items()
}
