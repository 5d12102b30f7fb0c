"""A planted bug: what it does to a patient or a hospital, where it is, what it changes, and the tests that find it."""

from typing import NamedTuple

from tests.seeded.change import Change


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
