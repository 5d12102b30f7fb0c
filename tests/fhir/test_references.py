"""Local references of a plan: found once for a change, replaced in all who refer, and nothing else touched."""

import pytest

from engine.errors import HeldDeliveryError
from engine.fhir.json import digest
from engine.fhir.plan import ElementChange, local_names, resolved

WARD = {"location": {"reference": "#ward"}, "status": "active"}
STAY = ElementChange("location", "PV1-3", (WARD, {"location": {"reference": "Location/7"}}), many=True)
CLASS = ElementChange("class", "class", ({"code": "IMP", "display": "#ward"},), many=False)


def test_names_are_found_in_order():
    """References of the plan are named in their order, those of the server and mere texts are not."""
    assert local_names([{"a": [{"reference": "#b"}]}, {"reference": "#a"}, {"reference": "Patient/1"}, "#c"]) == [
        "b",
        "a",
    ]
    assert (STAY.refers, CLASS.refers) == (("ward",), ())


def test_only_what_refers_is_made_anew():
    """A change without references is the same one; one with them gets another value, and leaves its own as it is."""
    stay, kind = resolved([STAY, CLASS], {"ward": "Location/3"})
    assert kind is CLASS
    assert stay.items == ({**WARD, "location": {"reference": "Location/3"}}, STAY.items[1])
    assert WARD["location"] == {"reference": "#ward"}


def test_what_is_shared_is_made_anew_only_where_it_refers_to_something_else():
    """The same references give the same change with its digests, others another; one unknown is told each time."""
    (first,), (again,) = (resolved([STAY], {"ward": "Location/3", "bed": bed}) for bed in ("1", "2"))
    assert again is first
    (other,) = resolved([STAY], {"ward": "Location/4"})
    assert other.items[0]["location"] == {"reference": "Location/4"}
    for _ in range(2):
        with pytest.raises(HeldDeliveryError, match="unresolved-reference"):
            resolved([STAY], {})


def test_change_made_of_another_knows_nothing_of_it():
    """What was found out about a change does not hold for one with other items."""
    assert STAY.marks == tuple(digest(item) for item in STAY.items)
    other = STAY._replace(items=CLASS.items)
    assert (other.refers, other.marks) == ((), (digest(CLASS.items[0]),))
    (stay,) = resolved([STAY], {"ward": "Location/3"})
    assert (stay.refers, stay.marks) == ((), tuple(digest(item) for item in stay.items))


def test_name_of_nothing_is_held():
    """A reference that stands for nothing in the plan is never sent."""
    with pytest.raises(HeldDeliveryError):
        resolved([CLASS, STAY], {"bed": "Location/3"})
