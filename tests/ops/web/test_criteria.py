"""What is searched for, kept under opaque ids."""

from engine.ops.web.call import MOST_KEPT, MOST_OF_ONE, Searches


def test_a_search_belongs_to_whoever_made_it() -> None:
    """Another account finds nothing under the same id, and an id says nothing of what is searched for."""
    searches = Searches()
    name = searches.keep("ann", {"patient": "RB-1"})
    assert searches.find("ann", name) == {"patient": "RB-1"}
    assert searches.find("bob", name) is None
    assert "RB" not in name
    searches.forget("ann")
    assert searches.find("ann", name) is None


def test_few_are_kept() -> None:
    """The oldest of an account go first, and the oldest of all where there are many accounts."""
    searches = Searches()
    names = [searches.keep("ann", {"event": str(number)}) for number in range(MOST_OF_ONE + 1)]
    assert searches.find("ann", names[0]) is None
    assert searches.find("ann", names[1]) == {"event": "1"}
    others = [searches.keep(f"p{number}", {}) for number in range(MOST_KEPT)]
    assert searches.find("ann", names[1]) is None
    assert searches.find("p0", others[0]) == {}
