"""The cache of Patients: bounded, and never of two minds about a number."""

from hypothesis import given
from hypothesis import strategies as st

from engine.deliver.stored import Cache, ServerResource, id_of, stored
from engine.fhir.changes import still
from engine.fhir.plan import Identity


def patient(logical_id):
    """A Patient as last shown."""
    return ServerResource(logical_id, 'W/"1"', {"id": logical_id})


def numbers(*values):
    """Identifiers of one system."""
    return [Identity("s", value) for value in values]


def test_all_numbers_must_agree():
    """A message whose numbers are not all known to stand for one Patient is not answered from the cache."""
    cache = Cache(10)
    cache.put(patient("a"), numbers("1"), "src", {})
    cache.put(patient("b"), numbers("2"), "src", {})
    assert cache.find(numbers("1")).logical_id == "a"
    assert cache.find(numbers("1")).fresh is False
    assert cache.find(numbers("1", "2")) is None
    assert cache.find(numbers("1", "3")) is None


def test_number_that_moves_takes_the_old_holder_out():
    """A number that turns up at another Patient makes the cache forget the first."""
    cache = Cache(10)
    cache.put(patient("a"), numbers("1"), "src", {})
    cache.put(patient("b"), numbers("1"), "src", {})
    assert cache.find(numbers("1")).logical_id == "b"
    assert cache.owned("a", "src") is None


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=60), st.integers(1, 6))
def test_cache_is_bounded(puts, whole):
    """However many Patients come, the cache holds its bound, and every number leads to a Patient that is there."""
    cache = Cache(5, whole)
    for logical_id, number in puts:
        cache.put(patient(str(logical_id)), numbers(str(number)), "src", {})
        assert len(cache) <= 5
        found = cache.find(numbers(str(number)))
        assert found is not None
        assert found.logical_id == str(logical_id)


PUTS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.sampled_from(("adt", "lab"))), max_size=40)


@given(PUTS, st.integers(1, 3))
def test_what_was_not_met_lately_is_remembered_as_it_was(puts, whole):
    """Packed or at hand: the same Patients under the same numbers, with what each source owns."""
    packing, plain = Cache(8, whole), Cache(8, 8)
    for count, (logical_id, number, source) in enumerate(puts):
        body = {"resourceType": "Patient", "id": str(logical_id), "name": [{"family": f"Núñez {count}"}]}
        marks = {"name": (body["name"], ("known",)), "address": ([], ("of another body",))}
        owned = {"name": (f"digest {count}",), "gender": ()}
        for cache in (packing, plain):
            shown = ServerResource(str(logical_id), f'W/"{count}"', body, marks=marks)
            cache.put(shown, numbers(str(number)), source, owned)
        for asked in range(10):
            found, expected = (cache.find(numbers(str(asked))) for cache in (packing, plain))
            assert (found is None) == (expected is None)
            if expected is not None:
                assert (found.logical_id, found.tag, found.body, found.fresh, found.type_) == (
                    expected.logical_id,
                    expected.tag,
                    expected.body,
                    False,
                    "Patient",
                )
                assert still(found.marks, found.body) == still(expected.marks, expected.body) != {}
            for one in ("adt", "lab"):
                assert packing.owned(str(asked), one) == plain.owned(str(asked), one)


def test_location_gives_the_id():
    """The id is read from a Location with and without a version."""
    assert id_of("http://x/fhir/R4/Patient/a-1") == "a-1"
    assert id_of("http://x/fhir/R4/Patient/a-1/_history/3") == "a-1"
    assert id_of("http://x/fhir/R4/Observation/a") == ""
    assert id_of("") == ""


def test_what_is_no_patient_is_none():
    """A body without a legal id is no Patient; a version makes the tag, else the ETag does."""
    assert stored({"resourceType": "Patient", "id": "../x"}, {}) is None
    assert stored({"resourceType": "Bundle", "id": "a"}, {}) is None
    body = {"resourceType": "Patient", "id": "a"}
    assert stored(body, {"etag": 'W/"7"'}).tag == 'W/"7"'
    assert stored(body | {"meta": {"versionId": "8"}}, {}).tag == 'W/"8"'


def test_what_others_have_written_since_is_forgotten():
    """Met in another version, a Patient is not remembered any more, nor what anybody owned of it."""
    cache = Cache()
    cache.put(ServerResource("a", 'W/"1"', {}), numbers("1"), "adt", {"name": ("old",)})
    cache.met(ServerResource("b", 'W/"7"', {}))
    cache.met(ServerResource("a", 'W/"1"', {}))
    assert cache.owned("a", "adt") == {"name": ("old",)}
    cache.met(ServerResource("a", 'W/"2"', {}))
    assert cache.owned("a", "adt") is None
    assert cache.find(numbers("1")) is None
