"""What one update says all of: delivering the newest alone leaves what delivering all in order leaves."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from engine.config.settings import shipped
from engine.deliver.verdict import VerdictKind
from engine.fhir.plan import Identity, Plan
from engine.fhir.superseding import supersedes
from engine.hl7.message import parse
from engine.mapping.authoring.case import channel_of, sending
from engine.mapping.compile import compile_mapping, load
from tests.deliver.conftest import MRN, Site
from tests.deliver.fake_chart import FakeChart, references_in

TYPES = ("Encounter", "RelatedPerson", "Coverage", "AllergyIntolerance", "Condition", "Provenance")
SOURCE = sending(load([shipped("mappings")], "adt"), TYPES)
MAPPING = compile_mapping(SOURCE, channel_of({"authorities": {"RVB": MRN}}))
PHONE, OTHER_PHONE = "^PRN^PH^^1^503^5550101", "^PRN^PH^^1^503^5550102"

# What a storm says of one patient, field by field; an empty field says nothing, and `""` deletes.
FIELDS = {
    "name": ("Quintero^Marisol", "Quintero-Vale^Marisol"),
    "birth": ("19840229", "19840301", ""),
    "address": ("1 Elm St^^Keswick^OR^97301", "2 Oak St^^Keswick^OR^97301", "", '""'),
    "home": (PHONE, OTHER_PHONE, "", '""'),
    "work": (OTHER_PHONE, "", '""'),
    "marital": ("M", "S", "", '""'),
    "died_at": ("20260301", "", '""'),
    "died": ("Y", "N", "", '""'),
    "more": ("", "~77^^^ENT^PI", "~D77^^^RVB^DL"),
    "visit": ("V1", ""),
    "class": ("I", "O"),
    "place": ("3W^312^A^RVB", "4N^401^B^RVB", ""),
    "doctor": ("1187^Osei^Ada", "2204^Lund^Tor", ""),
    "rest": (
        "",
        "\rNK1|1|Quintero^Ana|SPO",
        "\rNK1|1|Quintero^Ana|SPO\rNK1|2|Quintero^Tor|CHD",
        "\rAL1|1|DA|1001^PENICILLIN^L|MO",
        "\rDG1|1||I10.1^Hypertension^I10|||A",
        "\rDG1|1||I10.1^Hypertension^I10|||A\rDG1|2||I10.2^Other^I10|||A",
        "\rIN1|1|PPO^Preferred^L|7781|RIVERBEND MUTUAL|1 Plaza^^Keswick^OR^97301",
    ),
}
USUAL = {name: values[0] for name, values in FIELDS.items()} | {"visit": "V1", "died_at": "", "died": ""}


def plan(number: int, trigger: str = "A08", **said: str) -> Plan:
    """The plan of a message, the one after the other by the time of their events."""
    one = USUAL | said
    at = f"202603020800{number:02d}"
    pid = (
        f"PID|1||1^^^RVB^MR{one['more']}||{one['name']}||{one['birth']}|F|||{one['address']}||{one['home']}"
        f"|{one['work']}||{one['marital']}|||||||||||||{one['died_at']}|{one['died']}"
    )
    pv1 = f"PV1|1|{one['class']}|{one['place']}||||{one['doctor']}||||||||||||{one['visit']}^^^RVB"
    lines = [f"MSH|^~\\&|REG|RVB|||{at}||ADT^{trigger}|M{number}|P|2.5.1", f"EVN|{trigger}|{at}", pid]
    lines += [pv1] if one["visit"] else []
    return MAPPING.plan(parse(("\r".join(lines) + one["rest"]).encode()))


def fewest(plans: Sequence[Plan]) -> list[Plan]:
    """The plans that are delivered where each that the next one supersedes is left out."""
    return [one for one, following in zip(plans, [*plans[1:], None], strict=True) if not _repeated(one, following)]


def _repeated(one: Plan, following: Plan | None) -> bool:
    return following is not None and supersedes(following, one)


def state_of(chart: FakeChart) -> set[bytes]:
    """All that a server holds, without ids, versions, the order of lists, and when a class of a visit changed."""
    held = {f"Patient/{name}": body for name, body in chart.patients.items()} | chart.chart
    names = {name: _first_number(body) for name, body in held.items()}
    return {orjson.dumps(_plain(body, names), option=orjson.OPT_SORT_KEYS) for body in held.values()}


def _first_number(body: dict[str, Any]) -> str:
    return f"{body['resourceType']} {body['identifier'][0]['value']}"


def _plain(value: Any, names: dict[str, str], element: str = "") -> Any:
    if isinstance(value, dict):
        left = {key: part for key, part in value.items() if key not in {"id", "meta"}}
        if element == "classHistory":
            left.pop("period", None)
        return {
            key: names.get(part, part) if key == "reference" else _plain(part, names, key) for key, part in left.items()
        }
    if isinstance(value, list):
        return sorted((_plain(part, names, element) for part in value), key=orjson.dumps)
    return value


async def _after(plans: Sequence[Plan]) -> tuple[set[bytes], int]:
    """What a server holds after plans, and how often it was written to."""
    async with AsyncExitStack() as stack:
        chart = await FakeChart().start()
        stack.push_async_callback(chart.stop)
        site = Site(chart.base).open(if_none_exist="identifier")
        stack.push_async_callback(site.close)
        for one in plans:
            verdict = await site.deliver(one)
            assert verdict.kind is VerdictKind.DELIVERED, verdict
        return state_of(chart), len(chart.effects)


# As usual but for a few fields, so that much of a storm says all that came before.
FEW = st.lists(st.sampled_from(sorted(FIELDS)), max_size=2, unique=True)
SAYS = FEW.flatmap(lambda names: st.fixed_dictionaries({name: st.sampled_from(FIELDS[name]) for name in names}))
BASES = st.fixed_dictionaries({}, optional={name: st.sampled_from(values) for name, values in FIELDS.items()})


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(base=BASES, storm=st.lists(SAYS, min_size=2, max_size=6), known=st.booleans())
def test_the_newest_alone_leaves_what_all_leave(base: dict[str, str], storm: list[dict[str, str]], known: bool) -> None:
    """Whatever the updates say, of a known patient and of a new one."""
    first = [plan(0, "A01")] if known else []
    updates = [plan(number, **base | said) for number, said in enumerate(storm, 1)]
    event(f"{len(updates) - len(fewest(updates))} of {len(updates)} superseded")
    every, few = asyncio.run(_after([*first, *updates])), asyncio.run(_after([*first, *fewest(updates)]))
    assert few[0] == every[0]
    assert few[1] <= every[1]


def test_a_storm_that_says_the_same_fields_is_one_delivery() -> None:
    """Values change, and nothing is left out: the newest is all."""
    places = [plan(number, home=phone) for number, phone in enumerate((PHONE, OTHER_PHONE, PHONE, OTHER_PHONE))]
    assert fewest(places) == [places[-1]]


LOSSES: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "a phone that the newer one does not say": ({}, {"home": ""}),
    "a phone that the newer one deletes": ({}, {"home": '""'}),
    "a deletion that the newer one does not repeat": ({"home": '""'}, {"home": ""}),
    "a second number": ({"more": "~77^^^ENT^PI"}, {}),
    "a number by which nobody is found": ({"more": "~D77^^^RVB^DL"}, {}),
    "a visit that the newer one does not name": ({}, {"visit": ""}),
    "another visit": ({}, {"visit": "V2"}),
    "another place": ({}, {"place": "4N^401^B^RVB"}),
    "another class": ({}, {"class": "O"}),
    "an allergy": ({"rest": FIELDS["rest"][3]}, {}),
    "a diagnosis of two": ({"rest": FIELDS["rest"][5]}, {"rest": FIELDS["rest"][4]}),
    "the time of a death": ({"died_at": "20260301"}, {"died": "Y"}),
    "another person": ({}, {"name": "Moss^Ida", "birth": "19500101"}),
}


@pytest.mark.parametrize(("older", "newer"), LOSSES.values(), ids=LOSSES.keys())
def test_what_would_be_lost_is_delivered(older: dict[str, str], newer: dict[str, str]) -> None:
    """An older update stays where the newer one does not say all of it, or its outcome depends on what was before."""
    assert supersedes(plan(2, **older), plan(1, **older))
    assert not supersedes(plan(2, **newer), plan(1, **older))


CHANGED: dict[str, Callable[[Plan], Plan]] = {
    "another event": lambda one: one._replace(event="A31"),
    "another sender": lambda one: one._replace(source="LAB|RVB"),
    "an earlier event": lambda _one: plan(0),
    "a time of another precision": lambda one: one._replace(event_precision=8),
    "no time": lambda one: one._replace(event_at=None),
    "a merge": lambda _one: MAPPING.plan(
        parse(b"MSH|^~\\&|REG|RVB|||20260302090000||ADT^A40|M|P|2.5.1\rPID|1||1^^^RVB^MR\rMRG|2^^^RVB^MR")
    )._replace(event="A08"),
    "nothing to write": lambda one: one._replace(interactions=()),
    # A chart of a time before `normalise` is found by the spelling of the message.
    "another spelling": lambda one: one._replace(originals=((Identity(MRN, "1"), Identity(MRN, "001")),)),
}


@pytest.mark.parametrize("change", CHANGED.values(), ids=CHANGED.keys())
def test_an_update_of_another_kind_supersedes_nothing(change: Callable[[Plan], Plan]) -> None:
    """What is no update of the same patient, by the same sender and in the order of events."""
    assert not supersedes(change(plan(2)), plan(1))


def test_references_are_told_by_what_they_name() -> None:
    """Local names are the plan's own: the same name of another ward is another reference."""
    assert references_in([{"reference": "Location/1"}]) == ["Location/1"]
    assert not supersedes(plan(2, place="4N^401^B^RVB"), plan(1, place="3W^401^B^RVB"))
