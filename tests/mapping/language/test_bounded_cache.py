"""What is kept: bounded, and only what comes again."""

from engine.mapping.language.bounded_cache import BoundedCache


def test_a_bound_holds() -> None:
    """A full dictionary forgets rather than grows."""
    kept: BoundedCache[int, int] = BoundedCache(3)
    for number in range(10):
        assert kept.keep(number, number * 2) == number * 2
    assert len(kept) <= 3


def test_only_what_comes_again_is_kept() -> None:
    """A key seen once costs no memory for its value; the second time its value is kept."""
    kept: BoundedCache[str, int] = BoundedCache(3)
    kept.keep_if_again("a", 1)
    assert "a" not in kept
    kept.keep_if_again("a", 1)
    assert kept["a"] == 1


def test_marks_are_bounded_too() -> None:
    """Keys that never come again do not pile up as marks."""
    kept: BoundedCache[int, int] = BoundedCache(2)
    for number in range(100):
        kept.keep_if_again(number, number)
    assert len(kept._seen) <= 8


def test_large_keys_are_never_kept() -> None:
    """A message of a megabyte leaves nothing behind, however often it comes."""
    kept: BoundedCache[tuple[str, ...], int] = BoundedCache(3)
    for _ in range(3):
        kept.keep_if_again(("x" * 3000, "y" * 3000), 1)
    assert kept == {}
