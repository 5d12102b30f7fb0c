"""Digests stand for values, whatever the order of keys."""

from engine.fhir.digest import digest


def test_order_of_keys_and_element_ids_do_not_count():
    """The same value has the same digest; an element's own id does not matter."""
    assert digest({"a": 1, "b": [2]}) == digest({"b": [2], "a": 1, "id": "x"})
    assert digest("a") != digest(["a"])
    assert len(digest({})) == 24
