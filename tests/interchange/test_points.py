"""Every point of the service in scope is held by a test that names it, and no test names a point that is none."""

import pytest

from tests.interchange.points import holders, main, missing, named_in, points


def test_every_point_in_scope_is_held() -> None:
    """A point in scope that no test names is a gap."""
    assert missing() == ()


def test_no_test_names_what_is_no_point() -> None:
    """An id in a docstring or a parameter's id stands in the table."""
    known = points()
    assert {one: where for one, where in holders().items() if one not in known} == {}


def test_the_table_is_whole() -> None:
    """Each point stands once, in a section that says its part; those that wait wholly are out of scope."""
    known = points()
    assert sum(one.startswith("C-") for one in known) == 418
    assert list(known) == sorted(known)
    assert {one.part for one in known.values()} == {"now", "engine"}
    assert (known["C-145"].section, known["C-145"].tags, known["C-145"].part) == ("F", ("D",), "now")
    assert [one.id for one in known.values() if one.waits.startswith("wholly")] == []
    assert sum(one.in_scope for one in known.values() if one.id.startswith("C-")) == 418


@pytest.mark.parametrize("text", ["C-001 [S] a\nC-001 [S] b", "C-01 [S] a", "C-001 [Q] a", "C-001 a"])
def test_a_broken_table_is_refused(text: str) -> None:
    """A point that stands twice, or a line that is neither point nor section, is told."""
    with pytest.raises(ValueError, match="C-0"):
        points(f"about\n\n== A (now) Paths\n{text}\n")


def test_ranges_name_what_lies_between() -> None:
    """Lists, and ranges with an ellipsis, dots or a dash, name each of their points; gaps in the numbers stay gaps."""
    known = points()
    assert named_in("C-014…C-021: said", known) == {"C-014", "C-015", "C-016", "C-020", "C-021"}
    assert named_in("C-273..C-275, C-280", known) == {"C-273", "C-274", "C-275", "C-280"}
    assert named_in("C-001-C-003 and C-005; EC-0011, C-0012", known) == {"C-001", "C-002", "C-003", "C-005"}
    assert named_in("C-998", known) == {"C-998"}


def test_the_command_prints_points_and_tests(capsys: pytest.CaptureFixture[str]) -> None:
    """The command prints each point with its tests, or only the gaps, and exits 1 while there are any."""
    assert main([]) == (1 if missing() else 0)
    assert "test_create.py::test_parallel_identical_conditional_creates" in capsys.readouterr().out
    main(["--missing"])
    assert "C-145" not in capsys.readouterr().out
