"""Digests stand for values, whatever the order of keys."""

import tracemalloc

from engine.fhir import json as digest_module
from engine.fhir.json import digest


def test_order_of_keys_and_element_ids_do_not_count():
    """The same value has the same digest; an element's own id does not matter."""
    assert digest({"a": 1, "b": [2]}) == digest({"b": [2], "a": 1, "id": "x"})
    assert digest("a") != digest(["a"])
    assert len(digest({})) == 24


def test_what_is_remembered_is_bounded():
    """No more than so many values are remembered, and no long one."""
    remembered = digest_module._remembered
    remembered.cache_clear()
    assert digest("x" * 1000) == digest("x" * 1000)
    assert remembered.cache_info().currsize == 0
    for number in range(3000):
        digest(number)
    assert remembered.cache_info().currsize == remembered.cache_info().maxsize == 2048


def test_what_is_remembered_is_small():
    """A digest is kept with no more than its text: thousands of them stand in a running engine."""
    digest_module._remembered.cache_clear()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for number in range(1000):
            digest({"remembered": number})
        assert tracemalloc.get_traced_memory()[0] - before < 1000 * 768  # bytes
    finally:
        tracemalloc.stop()
