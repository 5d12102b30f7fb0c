"""The table of planted bugs in `bugs/`: tests, and the bugs of which at least one of them must fail.

Each key names tests below tests/. Each bug says its harm, where it is, its change under the kind of change, and, where
its code has several places, `of`: the code around the one that is meant.
"""

from pathlib import Path
from typing import Any, Final, NamedTuple

from engine.config.source import read
from tests.seeded.change import Add, Change, Code, Drop, Invert, Swap, Text, Unwrap, Value

KINDS: Final = {kind.__name__.lower(): kind for kind in (Add, Code, Drop, Invert, Swap, Text, Unwrap, Value)}


class Bug(NamedTuple):
    """One bug: `change` is made in `function`; at least one of `tests` (paths below tests/) must then fail."""

    harm: str
    function: str
    change: Change
    tests: tuple[str, ...]

    @property
    def file(self) -> str:
        """The path of its module below the project's folder."""
        return self.function.partition(":")[0].replace(".", "/") + ".py"

    @property
    def name(self) -> str:
        """The qualified name of its function, method or constant within the module."""
        return self.function.partition(":")[2]


def bugs_of(file: Path) -> tuple[Bug, ...]:
    """Return the bugs of one file; ConfigurationError where it is no such table."""
    return tuple(_bug(row, tuple(tests.split(", "))) for tests, rows in read(file).value.items() for row in rows)


def _bug(row: dict[str, Any], tests: tuple[str, ...]) -> Bug:
    (kind,) = row.keys() - {"harm", "in", "of"}
    code = row[kind] if isinstance(row[kind], list) else [row[kind]]
    around = {"of": row["of"]} if "of" in row else {}
    return Bug(row["harm"], row["in"], KINDS[kind](*code, **around), tests)


BUGS: Final = tuple(bug for file in sorted(Path(__file__).with_name("bugs").iterdir()) for bug in bugs_of(file))
