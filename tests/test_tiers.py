"""Which tests a tier has, what `--since` takes for a file, and that the tables of tiers name what is there."""

import pytest

from tests.tiers import ELSEWHERE, PLACES, ROOT, Tier, mirrored, selected, trials

DEFAULT, EXHAUSTIVE = "default", "exhaustive"


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


def test_a_property_is_tried_on_fewer_examples_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a fifth of them in the default tier; on all of them in the exhaustive one, and where it is named."""
    for default, number in ((True, 60), (False, 300)):
        monkeypatch.setattr(Tier, "default", default)
        assert trials(300) == number


@pytest.mark.parametrize(
    ("markers", "tiers"),
    [
        ((), [DEFAULT]),
        (("process",), [EXHAUSTIVE]),
        (("process", "smoke"), [DEFAULT]),
        (("property",), [DEFAULT, EXHAUSTIVE]),
        (("property", "postgres"), [EXHAUSTIVE]),
    ],
)
def test_the_tiers_of_a_test(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, markers: tuple[str, ...], tiers: list[str]
) -> None:
    """Its markers decide: a property is in both, unless it is dear in another way."""
    config, item = request.config, request.node
    for marker in markers:
        item.add_marker(marker)
    monkeypatch.setattr(config, "args", config.getini("testpaths"))
    found = []
    for tier in (DEFAULT, EXHAUSTIVE):
        for option in ("exhaustive", "full_sweep"):
            monkeypatch.setattr(config.option, option, option == tier)
        found += [tier] * selected(config, item, None)
    assert found == tiers


def test_the_tables_name_what_is_there() -> None:
    """A folder that was renamed would leave its tier unseen."""
    named = {*PLACES, *ELSEWHERE, *(test for tests in ELSEWHERE.values() for test in tests)}
    assert [one for one in sorted(named) if not (ROOT / one).exists()] == []
