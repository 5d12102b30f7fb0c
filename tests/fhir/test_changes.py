"""Changes to a resource: three states, ownership, adoption, and nothing of others removed."""

from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.fhir import changes as changes_module
from engine.fhir.changes import DEFAULT, NOT_SHOWN_TO_BE_OURS, REQUIRED_KEPT, alone, apply, created, grow, still
from engine.fhir.json import digest
from engine.fhir.plan import ElementChange

HOME, WORK, THEIRS = ({"system": "phone", "value": str(number)} for number in range(3))
RELIGION = "http://hl7.org/fhir/StructureDefinition/patient-religion"


def says(slice_name, *items, element="telecom"):
    """What a message says of a slice of a list."""
    return ElementChange(element, slice_name, items, many=True)


def one(element, *items):
    """What a message says of an element that is no list."""
    return ElementChange(element, element, items, many=False)


def test_value_is_written_and_owned():
    """A value replaces what stands there; an equal one is adopted and changes nothing."""
    result = apply({"gender": "female"}, [one("gender", "male"), one("birthDate", "1984-02-29")], {})
    assert result.body == {"gender": "male", "birthDate": "1984-02-29"}
    assert result.changed
    same = apply(result.body, [one("gender", "male")], {})
    assert (same.changed, same.owned) == (False, {"gender": (digest("male"),)})


def test_null_removes_only_what_is_owned():
    """Null removes what this source wrote last; what it is not known to have written stays, flagged."""
    body = {"gender": "female"}
    kept = apply(body, [one("gender")], {})
    assert (kept.body, kept.flags) == (body, (NOT_SHOWN_TO_BE_OURS,))
    gone = apply(body, [one("gender")], {"gender": (digest("female"),)})
    assert (gone.body, gone.owned, gone.changed) == ({}, {}, True)


def test_parts_of_an_element_have_three_states_each():
    """One part of a period changes, is left alone or goes; an element without parts goes with the last of them."""
    begun = apply({}, [one("period.start", "2026-03-01")], {})
    assert begun.body == {"period": {"start": "2026-03-01"}}
    ended = apply(begun.body, [one("period.end", "2026-03-02")], begun.owned)
    assert ended.body == {"period": {"start": "2026-03-01", "end": "2026-03-02"}}
    again = apply(ended.body, [one("period.end")], ended.owned)
    assert (again.body, again.changed) == (begun.body, True)
    assert apply(again.body, [one("period.start")], again.owned).body == {}
    diets = ElementChange("hospitalization.dietPreference", "PV1-38", ({"text": "soft"},), many=True)
    assert apply({}, [diets], {}).body == {"hospitalization": {"dietPreference": [{"text": "soft"}]}}


def test_snapshot_replaces_its_slice_only():
    """A slice's new items take the place of its old ones; other slices and other systems stay."""
    body = {"telecom": [HOME, THEIRS, WORK]}
    owned = {"PID-13": (digest(HOME),), "PID-14": (digest(WORK),)}
    result = apply(body, [says("PID-13", {"value": "new"})], owned)
    assert result.body["telecom"] == [{"value": "new"}, THEIRS, WORK]
    assert result.flags == ()


def test_items_without_a_record_stay_flagged():
    """Without a record an equal item is adopted, any other stays and is flagged."""
    result = apply({"telecom": [HOME, THEIRS]}, [says("PID-13", HOME)], {})
    assert (result.changed, result.flags) == (False, (NOT_SHOWN_TO_BE_OURS,))
    assert result.owned == {"PID-13": (digest(HOME),)}


def test_item_that_two_slices_own_stays_for_the_other():
    """An item that a second slice of ours owns, too, is not removed with the first."""
    owned = {"PID-13": (digest(HOME),), "PID-40": (digest(HOME),)}
    assert apply({"telecom": [HOME]}, [says("PID-13")], owned).body == {"telecom": [HOME]}


def test_required_elements_are_never_removed():
    """What the destination needs stays, with a flag."""
    body = {"birthDate": "1984-02-29", "name": [{"family": "Q"}]}
    owned = {"birthDate": (digest("1984-02-29"),), "PID-5": (digest({"family": "Q"}),)}
    changes = [one("birthDate"), says("PID-5", element="name")]
    result = apply(body, changes, owned, required=frozenset({"birthDate", "name"}))
    assert (result.body, result.changed, result.flags) == (body, False, (REQUIRED_KEPT,))


def test_one_choice_replaces_the_other():
    """A date of death takes the place of the flag: a resource holds one of them."""
    result = apply({"deceasedBoolean": False}, [one("deceasedDateTime", "2026-01-01")], {})
    assert result.body == {"deceasedDateTime": "2026-01-01"}


@pytest.mark.parametrize(
    ("name", "known"),
    [({"deceasedBoolean": True}, "deceasedDateTime"), ({"multipleBirthBoolean": True}, "multipleBirthInteger")],
)
def test_a_mere_indicator_takes_no_value_away(name, known):
    """That somebody is dead says nothing against the time of death; that they are not, does."""
    ((element, value),) = name.items()
    stored = {known: 2}
    assert apply(stored, [one(element, value)], {}).body == stored
    alive = False
    assert apply(stored, [one(element, alive)], {}).body == {element: alive}
    owned = {known: (digest(2),)}
    assert apply(stored, [one(known), one(element, value)], owned).body == {element: True}


def test_extension_of_the_same_url_is_replaced():
    """An extension's value replaces the one with its URL, and leaves others alone."""
    old, new, other = {"url": RELIGION, "valueCode": "a"}, {"url": RELIGION, "valueCode": "b"}, {"url": "x"}
    result = apply({"extension": [old, other]}, [says(RELIGION, new, element="extension")], {})
    assert result.body["extension"] == [new, other]


def test_fill_writes_only_what_is_empty():
    """An ancillary system fills gaps, may correct what it filled, and touches nothing else."""
    changes = [one("gender", "male"), one("birthDate", "1984-02-29"), says("PID-13", WORK)]
    result = apply({"gender": "female", "telecom": [HOME]}, changes, {}, fill=True)
    assert result.body == {"gender": "female", "telecom": [HOME], "birthDate": "1984-02-29"}
    again = apply(result.body, [one("birthDate", "1984-02-28")], result.owned, fill=True)
    assert again.body["birthDate"] == "1984-02-28"


def test_identifiers_only_grow():
    """A known number is not added again, whatever its use; a new one is."""
    retired, new = {"system": "s", "value": "1", "use": "old"}, {"system": "s", "value": "2"}
    current = [retired]
    assert grow(current, [{"system": "s", "value": "1"}]) is current
    assert grow(current, [new]) == [retired, new]


ITEMS = st.lists(st.sampled_from([{"value": str(number)} for number in range(5)]), max_size=4, unique_by=str)
SLICES = st.sampled_from(["PID-13", "PID-14", "PID-40"])
TURNS = st.lists(st.lists(st.tuples(SLICES, ITEMS), max_size=3, unique_by=lambda turn: turn[0]), max_size=5)


@given(TURNS, ITEMS)
def test_what_others_wrote_survives_any_sequence(turns, theirs):
    """Whatever a source says and takes back, items it never wrote stay, and applying twice changes nothing."""
    foreign = [{"value": f"their {item['value']}"} for item in theirs]
    body, owned = {"telecom": list(foreign)} if foreign else {}, {}
    for turn in turns:
        changes = [says(name, *items) for name, items in turn]
        before = deepcopy(body)
        result = apply(body, changes, owned)
        assert body == before
        assert all(item in result.body.get("telecom", []) for item in foreign)
        assert all(item in result.body.get("telecom", []) for _, items in turn for item in items)
        again = apply(result.body, changes, result.owned)
        assert (again.changed, again.body, again.owned) == (False, result.body, result.owned)
        body, owned = result.body, result.owned
    cleared = apply(body, [says(name) for name in ("PID-13", "PID-14", "PID-40")], owned)
    assert cleared.body.get("telecom", []) == foreign


@given(TURNS, st.lists(st.booleans(), min_size=5, max_size=5))
def test_what_is_known_of_lists_changes_nothing(turns, touched):
    """With the digests of the result before, a result is the same as without, whatever somebody else has written."""
    body, owned, marks = {}, {}, {}
    for turn, touch in zip(turns, touched, strict=False):
        if touch:
            body = {**body, "telecom": [*body.get("telecom", ()), THEIRS]}
        changes = [says(name, *items) for name, items in turn]
        result, alike = apply(body, changes, owned, marks=marks), apply(body, changes, owned)
        assert result[:5] == alike[:5]
        body, owned, marks = result.body, result.owned, result.marks


def test_known_lists_are_not_digested_again(monkeypatch):
    """What stands in a list as it was left is not digested again; what stands in another list is, however alike."""
    first = apply({"telecom": [THEIRS]}, [says("PID-13", HOME)], {})
    asked = []
    monkeypatch.setattr(changes_module, "digest", lambda item: asked.append(item) or digest(item))
    apply(first.body, [says("PID-13", WORK)], first.owned, marks=first.marks)
    assert asked == []
    copied = deepcopy(first.body)
    assert still(first.marks, copied) == {}
    again = apply(copied, [says("PID-13", WORK)], first.owned, marks=first.marks)
    assert (asked, again.body) == ([THEIRS, HOME], {"telecom": [THEIRS, WORK]})


def test_new_resource_is_owned_whole():
    """A resource made from changes has every value, and all of it is owned."""
    result = created([one("gender", "female"), one("birthDate"), says("PID-13", HOME), says("PID-14", WORK)])
    assert result.body == {"gender": "female", "telecom": [HOME, WORK]}
    assert set(result.owned) == {"gender", "PID-13", "PID-14"}


ITEMS = st.lists(st.sampled_from([HOME, WORK, THEIRS, {"system": "phone"}]), max_size=3)
LISTS = st.builds(
    lambda element, slice_, items: ElementChange(element, slice_, tuple(items), many=True),
    st.sampled_from(["telecom", "contact.telecom"]),
    st.sampled_from(["PID-13", "PID-14", "PID-13 x", "NK1-5"]),
    ITEMS,
)
EXTENSIONS = st.builds(
    lambda url, codes: ElementChange(
        "extension", url, tuple([{"url": url, "valueCode": code} for code in codes]), many=True
    ),
    st.sampled_from([RELIGION, "http://example.org/race"]),
    st.lists(st.sampled_from("ab"), max_size=2),
)
SINGLES = st.one_of(
    st.builds(one, st.sampled_from(["gender", "period.start", "period.end"]), st.sampled_from(["a", "b"])),
    st.builds(one, st.just("deceasedBoolean"), st.booleans()),
    st.builds(one, st.just("deceasedDateTime"), st.just("2026-03-01")),
    st.builds(one, st.sampled_from(["gender", "deceasedBoolean"])),
)


@given(st.lists(st.one_of(LISTS, EXTENSIONS, SINGLES), max_size=8, unique_by=lambda change: change.slice))
def test_new_resource_is_what_its_changes_make_of_nothing(changes):
    """To make a resource and to apply to an empty one what is said come to the same."""
    made = created(changes)
    plain = apply({}, [change for change in changes if change.items], {})
    assert made._replace(marks={}) == plain._replace(marks={})
    assert list(made.body) == list(plain.body)
    assert still(made.marks, made.body) == still(plain.marks, plain.body)


def test_others_stand_for_all_that_is_not_told() -> None:
    """`DG1 *` deletes the slices of DG1 that stand beside it nowhere, and nothing of another segment."""
    kept = ElementChange("diagnosis", "DG1 a", ({"rank": 1},), many=True)
    told = [ElementChange("diagnosis", "DG1 *", (), many=True), kept]
    owned = {"DG1": ("1",), "DG1 a": ("2",), "DG1 b": ("3",), "DG10 c": ("4",), "PV1-3": ("5",)}
    assert [(one.slice, one.items) for one in alone(told, owned)] == [("DG1", ()), ("DG1 b", ()), ("DG1 a", kept.items)]


def test_fill_writes_all_slices_of_one_family() -> None:
    """Where a source may fill an empty list, each thing of it is filled in, not only the first."""
    told = [
        ElementChange("diagnosis", f"DG1 {name}", ({"rank": rank},), many=True) for rank, name in ((1, "a"), (2, "b"))
    ]
    filled = apply({}, told, {}, fill=True)
    assert filled.body["diagnosis"] == [{"rank": 1}, {"rank": 2}]
    assert apply({"diagnosis": [{"rank": 9}]}, told, {}, fill=True).body == {"diagnosis": [{"rank": 9}]}


GENDER = ElementChange("gender", f"gender{DEFAULT}", ("unknown",), many=False)
ABSENT = {"extension": [{"url": "http://hl7.org/fhir/StructureDefinition/data-absent-reason", "valueCode": "unknown"}]}
NAMED = ElementChange("name", f"name{DEFAULT}", (ABSENT,), many=True)


def test_a_default_is_written_where_nothing_else_says_the_element() -> None:
    """On a new resource, and on a stored one that lacks it; what is stored stays."""
    assert created((GENDER, NAMED)).body == {"gender": "unknown", "name": [ABSENT]}
    assert apply({}, (GENDER, NAMED), {}).body == {"gender": "unknown", "name": [ABSENT]}
    stored = {"gender": "female", "name": [{"family": "Roe"}]}
    kept = apply(stored, (GENDER, NAMED), {})
    assert (kept.body, kept.changed, kept.flags) == (stored, False, ())


@pytest.mark.parametrize("fill", [False, True])
def test_a_default_gives_way_to_what_a_later_message_says(fill: bool) -> None:
    """The later value replaces it, also on a channel that only fills in: the default is the feed's own."""
    first = created((GENDER, NAMED))
    said = (
        ElementChange("gender", "gender", ("male",), many=False),
        ElementChange("name", "name PID-5", ({"family": "Roe"},), many=True),
    )
    assert apply(first.body, said, first.owned, fill=fill).body["gender"] == "male"
    later = apply(first.body, said, first.owned)
    assert later.body == {"gender": "male", "name": [{"family": "Roe"}]}
    assert apply(later.body, (GENDER, NAMED), later.owned).changed is False


def test_a_deleted_element_gets_its_default_again() -> None:
    """`""` in the field takes the value away, and the profile still wants one."""
    first = created((ElementChange("gender", "gender", ("male",), many=False),))
    gone = ElementChange("gender", "gender", (), many=False)
    assert apply(first.body, (gone, GENDER), first.owned).body == {"gender": "unknown"}


def test_a_reason_for_an_absent_element_is_no_default_where_there_is_one():
    """`_birthDate` is not written next to a date, and goes when one comes."""
    why = ElementChange("_birthDate", f"_birthDate{DEFAULT}", (ABSENT,), many=False)
    assert created((one("birthDate", "1984-02-29"), why)).body == {"birthDate": "1984-02-29"}
    assert apply({"birthDate": "1984-02-29"}, (why,), {}).changed is False
    first = created((why,))
    later = apply(first.body, (one("birthDate", "1984-02-29"), one("_birthDate")), first.owned)
    assert later.body == {"birthDate": "1984-02-29"}
