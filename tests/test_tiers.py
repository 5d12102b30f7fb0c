"""What `--since` takes for the tests of a file, and that the tables of tiers name what is there."""

import pytest

from tests.tiers import ELSEWHERE, PLACES, ROOT, mirrored


@pytest.mark.parametrize(
    ("file", "tests"),
    [
        ("engine/fault.py", ("tests/test_fault.py",)),
        ("engine/__main__.py", ("tests/test_main.py",)),
        ("engine/hl7/path.py", ("tests/hl7",)),
        ("engine/hl7/tables/events.tsv", ("tests/hl7",)),
        ("engine/database/sqlite.py", ("tests/test_dialect.py", "tests/test_sqlite.py")),
        ("tests/hl7/test_path.py", ("tests/hl7",)),
        ("tests/test_fault.py", ("tests/test_fault.py",)),
        ("tests/conftest.py", ("tests",)),
        ("mappings/adt.yaml", ("tests/mapping", "tests/samples")),
        ("engine/ops/docs/alerts.md", ("tests/test_docs.py",)),
        ("LICENSE", ()),
    ],
)
def test_the_tests_of_a_file(file: str, tests: tuple[str, ...]) -> None:
    """The folder that mirrors its own, the file of its name, or what the table says."""
    assert mirrored(file) == tests


def test_the_tables_name_what_is_there() -> None:
    """A folder that was renamed would leave its tier unseen."""
    named = {*PLACES, *ELSEWHERE, *(test for tests in ELSEWHERE.values() for test in tests)}
    assert [one for one in sorted(named) if not (ROOT / one).exists()] == []
