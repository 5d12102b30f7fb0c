"""Charts of a time before `normalise`, at a real HTTP server: found, brought into the form, and never made twice."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.config.settings import shipped
from engine.deliver.verdict import KnownIdentifier, VerdictKind
from engine.fhir.plan import Identity, Interaction, Plan, Upsert
from engine.hl7.message import parse
from engine.mapping.authoring.case import channel_of
from engine.mapping.compile import Mapping, compile_mapping, read
from tests.deliver.conftest import AT, MRN, Site
from tests.deliver.fake_fhir import FakeFhir, Step
from tests.tiers import trials

PERSON = {"name": [{"family": "Quintero", "given": ["Marisol"]}], "gender": "female", "birthDate": "1984-02-29"}
FORM = Identity(MRN, "4711")


def planned(*interactions: Interaction, sent: str = "0004711", number: str = "4711") -> Plan:
    """What a message says whose number has another form than it spells."""
    originals = ((Identity(MRN, number), Identity(MRN, sent)),)
    return Plan("A08", "ADT|RVB", AT, 14, interactions, originals=originals)


def numbers(server: FakeFhir, logical_id: str) -> list[tuple[str, str]]:
    """The numbers of a record and their use."""
    return [(item["value"], item.get("use", "")) for item in server.patients[logical_id]["identifier"]]


async def opened(site: Site, **options: Any) -> Site:
    """A destination that has read the server's CapabilityStatement."""
    site.open(**options)
    assert site.destination is not None
    await site.destination.check()
    return site


async def test_a_chart_with_the_number_as_sent_is_brought_into_the_form(site, server, identifier, patient):
    """The old spelling stays as an old number, the form is current, and the message goes on with that chart."""
    server.add("a", identifier=[identifier("0004711")], **PERSON)
    verdict = await (await opened(site)).deliver(planned(Upsert(patient("4711", telecom=[{"value": "7"}]))))
    assert (verdict.reason, "number-brought-into-form" in verdict.notes) == ("updated", True)
    assert numbers(server, "a") == [("0004711", "old"), ("4711", "")]
    assert server.effects == ["update a", "update a"]
    again = await site.deliver(planned(Upsert(patient("4711", telecom=[{"value": "8"}]))))
    assert (again.reason, "number-brought-into-form" in again.notes) == ("updated", False)


async def test_a_chart_known_in_a_third_spelling_is_found(site, server, identifier, patient):
    """The journal knows it as 004711, the message says 0004711."""
    server.add("a", identifier=[identifier("004711")], **PERSON)
    await opened(site)
    site.memory.forms = {FORM: (Identity(MRN, "004711"),)}
    assert (await site.deliver(planned(Upsert(patient("4711"))))).reason == "unchanged"
    assert numbers(server, "a") == [("004711", "old"), ("4711", "")]


async def test_a_message_in_the_form_finds_a_chart_known_in_another(site, server, identifier, patient):
    """The spelling of the message is the form itself; what the journal knows is looked for."""
    server.add("a", identifier=[identifier("004711")], **PERSON)
    await opened(site)
    site.memory.forms = {FORM: (Identity(MRN, "004711"),)}
    await site.deliver(planned(Upsert(patient("4711")), sent="4711"))
    assert list(server.patients) == ["a"]


async def test_two_charts_of_one_number_are_held(site, server, identifier, patient):
    """Nobody but a person can say whether they are one; nothing is written."""
    server.add("a", identifier=[identifier("004711")], **PERSON)
    server.add("b", identifier=[identifier("0004711")], **PERSON)
    await opened(site)
    site.memory.forms = {FORM: (Identity(MRN, "004711"),)}
    verdict = await site.deliver(planned(Upsert(patient("4711"))))
    assert (verdict.kind, verdict.reason, server.effects) == (VerdictKind.HELD, "ambiguous-identity", [])


async def test_a_chart_that_has_the_form_and_another_that_has_the_spelling_are_held(site, server, identifier, patient):
    """To bring the one into the form would give two charts one number."""
    server.add("a", identifier=[identifier("0004711")], **PERSON)
    server.add("b", identifier=[identifier("4711")], **PERSON)
    verdict = await (await opened(site)).deliver(planned(Upsert(patient("4711"))))
    assert (verdict.kind, verdict.reason, server.effects) == (VerdictKind.HELD, "would-merge", [])


async def test_a_number_that_is_known_costs_nothing(site, server, identifier, patient):
    """One search as ever: what the journal knows in its form is not looked for in others."""
    server.add("a", identifier=[identifier("4711")], **PERSON)
    await opened(site)
    site.memory.identities[FORM] = KnownIdentifier(FORM, "a", "current")
    await site.deliver(planned(Upsert(patient("4711"))))
    assert [one for one in server.requests if "0004711" in one] == []


async def test_a_destination_that_only_gets_creates_holds(site, server, identifier, patient):
    """It may not change the chart that is there, and must not make a second one."""
    server.add("a", identifier=[identifier("0004711")], **PERSON)
    await opened(site, writes="create-only")
    verdict = await site.deliver(planned(Upsert(patient("4711"))))
    assert (verdict.kind, verdict.reason, server.effects) == (VerdictKind.HELD, "number-in-another-form", [])


async def test_a_lost_answer_is_made_good_by_the_next_try(site, server, identifier, patient):
    """The change was made and nobody heard it: the chart is found in its form then, and stays the only one."""
    server.add("a", identifier=[identifier("0004711")], **PERSON)
    await opened(site)
    server.script.append(Step("PUT", 504, commit=True))
    assert (await site.deliver(planned(Upsert(patient("4711"))))).kind is VerdictKind.RETRY
    again = await site.deliver(planned(Upsert(patient("4711"))), attempts_made=1)
    assert (again.reason, numbers(server, "a")) == ("unchanged", [("0004711", "old"), ("4711", "")])
    assert list(server.patients) == ["a"]


async def test_a_server_that_refuses_the_form_holds_the_message(site, server, identifier, patient):
    """A second chart is the one thing that must not come of it."""
    server.add("a", identifier=[identifier("0004711")], **PERSON)
    await opened(site)
    server.script.append(Step("PUT", 422))
    verdict = await site.deliver(planned(Upsert(patient("4711"))))
    assert (verdict.kind, verdict.reason) == (VerdictKind.HELD, "number-in-another-form")
    assert list(server.patients) == ["a"]


async def test_a_merge_finds_the_charts_of_both_numbers(site, server, identifier, merging):
    """Else the merged side would count as absent, and its chart stay as it is."""
    server.add("a", identifier=[identifier("0001")], **PERSON)
    server.add("b", identifier=[identifier("0002")], **PERSON)
    await opened(site)
    originals = tuple((Identity(MRN, number), Identity(MRN, f"000{number}")) for number in "12")
    verdict = await site.deliver(Plan("A40", "ADT|RVB", AT, 14, (merging("2", "1"),), originals=originals))
    assert verdict.reason == "merged"
    assert server.patients["b"]["active"] is False


# Model: what is sent in mixed spellings to a mapping with a rule does what canonical numbers do without one.

RULE = "mapping: adt\nextends: shipped/adt\nidentity:\n  normalise: {RVB: {leading_zeros: strip}}\n"
NUMBERS = st.integers(1, 4)
SPELLING = st.integers(0, 3)
Sent = tuple[str, int, int, int, int]
STEPS = st.lists(
    st.tuples(st.sampled_from(["A31", "A31", "A31", "A40", "A47", "again"]), NUMBERS, NUMBERS, SPELLING, SPELLING),
    min_size=1,
    max_size=9,
)


@pytest.fixture(scope="module")
def mappings(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Mapping]:
    """The shipped mapping, and one with a rule."""
    folder: Path = tmp_path_factory.mktemp("site")
    (folder / "adt.yaml").write_text(RULE, "utf-8")
    channel = channel_of({"authorities": {"RVB": MRN}})
    folders = {False: [shipped("mappings")], True: [folder, shipped("mappings")]}
    return {on: compile_mapping(read(folders[on], "adt"), channel) for on in folders}


def texts(steps: list[Sent], spelt: Any) -> list[str]:
    """The messages of some steps; `spelt` writes a number with zeros. `again` sends an earlier one once more."""
    made: list[str] = []
    for event, one, other, zeros, more in steps:
        if event == "again":
            made.append(made[(one * 7 + other) % len(made)] if made else "")
            continue
        head = f"MSH|^~\\&|ADT|RVB|||20260701||ADT^{event}|1|P|2.5.1"
        pid = f"PID|1||{spelt(one, zeros)}^^^RVB^MR||Person{one}^Given||198{one}0101|F"
        mrg = [f"MRG|{spelt(other, more)}^^^RVB^MR"] if event in {"A40", "A47"} else []
        made.append("\r".join((head, pid, *mrg)) if one != other or not mrg else "")
    return [text for text in made if text]


async def charts(mappings: dict[bool, Mapping], sent: list[tuple[str, bool]]) -> tuple[list[Any], bool]:
    """Deliver messages, each with the rule or without, and return what the server then has, spelt in the form.

    Also whether one was held for a number that only a merged-away record has, which this server lets nobody write.
    """
    held = False
    server = await FakeFhir().start()
    site = await opened(Site(server.base))
    try:
        for text, on in sent:
            message = parse(text.encode())
            if mappings[on].identify(message).findings:
                continue
            if on:
                site.memory.forms = _other_forms(site)
            assert site.destination is not None
            held |= (await site.deliver(mappings[on].plan(message))).reason == "number-in-another-form"
    finally:
        await site.close()
        await server.stop()
    return sorted((_in_form(body) for body in server.patients.values()), key=repr), held


def _other_forms(site: Site) -> dict[Identity, tuple[Identity, ...]]:
    """What the journal would tell of numbers that are known in another form."""
    found: dict[Identity, tuple[Identity, ...]] = {}
    for identity in site.memory.identities:
        formed = Identity(identity.system, identity.value.lstrip("0"))
        if formed != identity:
            found[formed] = (*found.get(formed, ()), identity)
    return found


def _in_form(body: dict[str, Any]) -> Any:
    """A chart: whose, whether it is active, and its numbers in the form, each with the use of its best spelling."""
    uses: dict[str, set[str]] = {}
    for item in body["identifier"]:
        uses.setdefault(item["value"].lstrip("0"), set()).add(item.get("use", ""))
    names = [name.get("family") for name in body.get("name", ())]
    return names, body.get("active", True), sorted((number, min(use)) for number, use in uses.items())


@settings(max_examples=trials(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_mixed_spellings_with_a_rule_do_what_one_spelling_does(
    mappings: dict[bool, Mapping], steps: list[Sent]
) -> None:
    """No second chart and none lost, over updates, merges, changes of number and repeats; on, and off."""
    mixed = texts(steps, lambda number, zeros: "0" * zeros + str(number))
    plain = texts(steps, lambda number, _zeros: str(number))
    assert asyncio.run(charts(mappings, [(text, True) for text in mixed])) == asyncio.run(
        charts(mappings, [(text, False) for text in plain])
    )


@settings(max_examples=trials(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS, before=st.integers(0, 9), zeros=st.lists(SPELLING, min_size=5, max_size=5))
def test_a_rule_on_a_feed_that_has_run_makes_no_second_chart(
    mappings: dict[bool, Mapping], steps: list[Sent], before: int, zeros: list[int]
) -> None:
    """The feed had one spelling of each number; from some message on there is a rule, and any spelling comes."""
    first = texts(steps[:before], lambda number, _zeros: "0" * zeros[number] + str(number))
    rest = texts(steps[before:], lambda number, some: "0" * some + str(number))
    plain = [
        *texts(steps[:before], lambda number, _zeros: str(number)),
        *texts(steps[before:], lambda number, _: str(number)),
    ]
    mixed = [*((text, False) for text in first), *((text, True) for text in rest)]
    found, held = asyncio.run(charts(mappings, mixed))
    used = [number for _, active, spelt in found if active for number, use in spelt if use != "old"]
    assert len(used) == len(set(used))
    assert held or found == asyncio.run(charts(mappings, [(text, False) for text in plain]))[0]
