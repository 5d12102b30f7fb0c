"""What a feed means by names of coding systems (`assume: {I10: icd-10-cm}`), in place of what HL7 table 0396 says."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from engine.mapping.files.document import Document, Problems
from engine.mapping.files.reference import nearest
from engine.mapping.files.table import Table, Target
from engine.mapping.language.identifier import URI
from engine.mapping.subject.events import EventTable

SYSTEMS: Final = "coding-system"


def assumed(tables: dict[str, Table], events: EventTable, document: Document, problems: Problems) -> dict[str, Table]:
    """Return the tables with that of coding systems as the event file has it; what is wrong goes to `problems`.

    What is meant is a name of that table, the last part of a URI in it (`icd-10-cm`), or a URI.
    """
    table = tables.get(SYSTEMS)
    if not events.assume or table is None:
        return tables
    known = {one.code.rpartition("/")[2].casefold(): one.code for one in table.codes.values() if one}
    known |= {name.casefold(): one.code for name, one in table.codes.items() if one}
    found: dict[str, Target] = {}
    for name, meant in events.assume.items():
        uri = known.get(str(meant).casefold()) or (str(meant) if URI.fullmatch(str(meant)) else "")
        if uri:
            found[table.key(name) or name] = Target(uri, "", "")
        else:
            problems.add(document, ("assume", name), f"found {meant!r}", nearest(str(meant).casefold(), known))
    return {**tables, SYSTEMS: _with(table, found)}


def _with(table: Table, rows: Mapping[str, Target]) -> Table:
    folded = {name.casefold(): name for name in rows}
    displays = {**dict.fromkeys(rows, ""), **table.displays}
    return replace(table, codes={**table.codes, **rows}, displays=displays, folded={**folded, **table.folded})
