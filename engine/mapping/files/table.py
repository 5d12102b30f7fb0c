"""Code tables: HL7 codes to FHIR codes, and the policy for codes that are not in the table."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from engine.mapping.files.table_rows import KEY, TableRows, keys_of

# Results for the codes of larger tables are made when they are asked for.
MOST_PRECOMPUTED: Final = 5000
V2_SYSTEM: Final = "http://terminology.hl7.org/CodeSystem/v2-"


class UnmappedPolicy(StrEnum):
    """The policy for a code that the table does not have.

    `keep-original`: the code is kept as text and as a coding of its own, with a warning. `default`: the table's
    default code replaces it, with a warning. `refuse`: the message cannot be mapped. `ignore`: nothing is made.
    """

    KEEP = "keep-original"
    DEFAULT = "default"
    REFUSE = "refuse"
    IGNORE = "ignore"


@dataclass(frozen=True, slots=True)
class TargetCode:
    """A FHIR code with its system and display."""

    code: str
    system: str
    display: str

    def coding(self) -> dict[str, Any]:
        """Return a new Coding."""
        if self.display:
            return {"system": self.system, "code": self.code, "display": self.display}
        return {"system": self.system, "code": self.code}


@dataclass(frozen=True, slots=True)
class MappingTable:
    """One code table. A code without a target is known, but has no FHIR code (`displays` names it).

    `hl7` is the number of the codes' HL7 table (`0002`), or empty. Look-up is exact first, then ignores case.
    `keys`: the names of its keys; the codes of a table with several have their parts joined by `|`.
    """

    name: str
    hl7: str
    unmapped: UnmappedPolicy
    default: TargetCode | None
    codes: Mapping[str, TargetCode | None]
    displays: Mapping[str, str]
    folded: Mapping[str, str] = field(default_factory=dict)
    keys: tuple[str, ...] = (KEY,)

    def key(self, code: str) -> str | None:
        """Return the table's own spelling of a code; None if it is not in the table."""
        if code in self.codes:
            return code
        folded = code.casefold()
        return self.folded.get(folded) or (folded if folded in self.codes else None)

    def answers(self, made: Callable[[str], Any]) -> dict[str, Any]:
        """Return the function's precomputed result for each of the table's own codes; none for a large table."""
        return {code: made(code) for code in self.codes} if len(self.codes) <= MOST_PRECOMPUTED else {}

    @property
    def original_system(self) -> str:
        """The code system of the HL7 codes, empty if they have no HL7 table."""
        return V2_SYSTEM + self.hl7 if self.hl7 else ""


class RowTargets(Mapping[str, TargetCode | None]):
    """The targets of the rows of a CSV file, each made when it is asked for; `above`: codes that replace them."""

    def __init__(self, rows: TableRows, above: Mapping[str, TargetCode | None], system: str) -> None:
        self._rows, self._above, self._system = rows, above, system
        self._count = len(rows) + sum(code not in rows for code in above)

    def __getitem__(self, code: str) -> TargetCode | None:
        """Return the target of a code, None if it has none; KeyError for one that is in no row."""
        if code in self._above:
            return self._above[code]
        row = self._rows[code]
        return TargetCode(row.code, row.system or self._system, row.display) if row.code else None

    def __contains__(self, code: object) -> bool:
        """True if a row or a code above has it."""
        return code in self._rows or code in self._above

    def __iter__(self) -> Iterator[str]:
        """Yield the codes: those of the rows, then those above that have no row."""
        yield from self._rows
        yield from (code for code in self._above if code not in self._rows)

    def __len__(self) -> int:
        """Return the number of codes."""
        return self._count


class RowDisplays(Mapping[str, str]):
    """The names of codes in the rows of a CSV file; `targets` has the codes, `above` names that replace them."""

    def __init__(self, rows: TableRows, above: Mapping[str, str], targets: RowTargets) -> None:
        self._rows, self._above, self._targets = rows, above, targets

    def __getitem__(self, code: str) -> str:
        """Return the name of a code, empty if it has none."""
        if code in self._above:
            return self._above[code]
        row = self._rows[code]
        return row.original or row.display

    def __iter__(self) -> Iterator[str]:
        """Yield the codes."""
        return iter(self._targets)

    def __len__(self) -> int:
        """Return the number of codes."""
        return len(self._targets)


def make_table(name: str, value: Mapping[str, Any], rows: TableRows | None = None) -> MappingTable:
    """Make a table of a checked authored one, whose codes replace those of `rows`."""
    system = value.get("system") or ""
    codes: dict[str, TargetCode | None] = {}
    displays: dict[str, str] = {}
    for code, row in (value.get("codes") or {}).items():
        codes[code] = _target(row, system)
        displays[code] = (row.get("original") or row.get("display") or "") if isinstance(row, dict) else ""
    policy = value.get("unmapped") or UnmappedPolicy.KEEP
    default = None
    if isinstance(policy, dict):
        default = _target(policy["default"], system)
        policy = UnmappedPolicy.DEFAULT
    folded: dict[str, str] = {}
    for code in codes:
        folded.setdefault(code.casefold(), code)
    hl7, keys, unmapped = value.get("hl7") or "", keys_of(value), UnmappedPolicy(policy)
    if rows is None:
        return MappingTable(name, hl7, unmapped, default, codes, displays, folded, keys)
    targets = RowTargets(rows, codes, system)
    both = {**rows.folded, **folded} if codes else rows.folded
    return MappingTable(name, hl7, unmapped, default, targets, RowDisplays(rows, displays, targets), both, keys)


def _target(row: Any, system: str) -> TargetCode | None:
    if isinstance(row, str):
        return TargetCode(row, system, "")
    if not isinstance(row, dict) or not row.get("code"):
        return None
    return TargetCode(row["code"], row.get("system") or system, row.get("display") or "")
