"""Merges at a real HTTP server: what is done, what is refused, and what was done already."""

import asyncio
import signal
import subprocess
import sys

import pytest

from engine.deliver.verdict import Failure, KnownIdentifier, VerdictKind
from engine.fhir.plan import Identity, Merge, Upsert
from tests.deliver.fake_fhir import Step

MRN = "https://mrn.riverbend.example"
PERSON = {"name": [{"family": "Quintero", "given": ["Marisol"]}], "gender": "female", "birthDate": "1984-02-29"}


async def opened(site, **settings):
    """A destination that has read the server's CapabilityStatement."""
    site.open(**settings)
    await site.destination.check()
    return site


def numbers(server, logical_id):
    """The numbers of a record, each with its use."""
    return [(item["value"], item.get("use", "")) for item in server.patients[logical_id].get("identifier", ())]


@pytest.fixture
def two(server, identifier):
    """Two records of one person, under the numbers 1 and 2."""
    server.add("a", identifier=[identifier("1")], telecom=[{"value": "5"}], **PERSON)
    server.add("b", identifier=[identifier("2")], **PERSON | {"gender": "unknown"})


async def test_merge_is_previewed_sent_once_and_verified(site, server, two, merging):
    """The preview comes first, its differences are noted by path; the merge is verified by reading the source."""
    verdict = await (await opened(site)).send(merging("1", "2"))
    assert (verdict.kind, verdict.reason) == (VerdictKind.DELIVERED, "merged")
    assert server.effects == ["merge a into b", "update b"]
    assert "lost Patient.gender" in verdict.notes
    assert server.requests[-3:] == ["GET Patient/a", "GET Patient/b", "PUT Patient/b"]
    assert [b"preview" in intent.body for intent in site.intents] == [True, False, False]
    assert [(known.status, known.survivor) for known in verdict.known if known.identity.value == "1"] == [
        ("merged-away", "b")
    ]


async def test_a_merge_that_the_records_do_not_show_is_not_believed(site, server, two, merging):
    """The server says that it merged, and the source stands there as before: not delivered, and read again first."""
    await opened(site)
    server.script.append(Step("POST", path="$merge"))  # the preview goes through
    server.script.append(Step("POST", 200, body=b'{"resourceType": "Parameters"}', path="$merge"))
    verdict = await site.send(merging("1", "2"))
    assert (verdict.kind, verdict.failure, verdict.reason) == (
        VerdictKind.RETRY, Failure.AMBIGUOUS, "merge-unverified",
    )  # fmt: skip
    assert (verdict.known, verdict.merges, server.effects) == ((), (), [])
    assert (await site.send(merging("1", "2"), ambiguous=True)).reason == "merged"
    assert server.effects == ["merge a into b", "update b"]


async def test_merge_twice_is_one_merge(site, server, two, merging):
    """The same merge again is a success without a call."""
    await (await opened(site)).send(merging("1", "2"))
    verdict = await site.send(merging("1", "2"))
    assert (verdict.kind, verdict.reason) == (VerdictKind.DELIVERED, "already-merged")
    assert server.effects == ["merge a into b", "update b"]


async def test_merge_twice_where_the_server_shows_tombstones(site, server, two, merging):
    """The same, at a server whose search finds the merged-away record itself."""
    server.survivor_for_old_numbers = False
    await (await opened(site)).send(merging("1", "2"))
    assert (await site.send(merging("1", "2"))).reason == "already-merged"


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(Step("POST", commit=True, hang=True, path="$merge"), id="no answer"),
        pytest.param(Step("POST", 504, commit=True, path="$merge"), id="504"),
        pytest.param(Step("POST", commit=True, drop=True, path="$merge"), id="connection lost"),
    ],
)
async def test_lost_answer_of_a_merge_makes_no_second_merge(site, server, two, merging, step):
    """An answer lost after the commit is ambiguous; the next attempt reads and finds the merge done."""
    await opened(site, timeout_seconds=1, carry_over=["telecom"])
    server.script.append(Step("POST", path="$merge"))  # the preview goes through
    server.script.append(step)
    verdict = await site.send(merging("1", "2"))
    assert (verdict.kind, verdict.failure) == (VerdictKind.RETRY, Failure.AMBIGUOUS)
    assert (await site.send(merging("1", "2"), ambiguous=True)).reason == "already-merged"
    assert server.effects == ["update b", "merge a into b", "update b"]
    assert numbers(server, "b") == [("2", ""), ("1", "old")]


async def test_self_merge_is_rejected(site, server, identifier, merging):
    """Two current numbers of one record: rejected, and the chart is as it was."""
    server.add("a", identifier=[identifier("1"), identifier("2")], **PERSON)
    verdict = await (await opened(site)).send(merging("1", "2"))
    assert (verdict.kind, verdict.reason) == (VerdictKind.REJECTED, "self-merge")
    assert (server.effects, site.intents) == ([], [])
    assert verdict.involved == (
        ("Patient/a", "has both numbers already", (f"{MRN}|1", f"{MRN}|2"), "Quintero, Marisol, born 1984-02-29"),
    )


async def test_renamed_number_is_no_self_merge(site, server, identifier, merging):
    """A survivor that carries the old number with use=old has been merged already."""
    server.add("a", identifier=[identifier("1", use="old"), identifier("2")], **PERSON)
    assert (await (await opened(site)).send(merging("1", "2"))).reason == "already-merged"


async def test_inverse_merge_is_held(site, server, two, merging):
    """After 1 into 2, 2 into 1 is a cycle."""
    await (await opened(site)).send(merging("1", "2"))
    verdict = await site.send(merging("2", "1"))
    assert (verdict.kind, verdict.reason) == (VerdictKind.HELD, "merge-cycle")


async def test_chain_of_merges_reaches_the_head(site, server, two, identifier, merging, patient):
    """1 into 2, 2 into 3; then 1 speaks, and its message goes to 3 without giving it the old number."""
    server.add("c", identifier=[identifier("3")], **PERSON)
    await (await opened(site)).send(merging("1", "2"))
    await site.send(merging("2", "3"))
    verdict = await site.send(Upsert(patient("1", telecom=[{"value": "7"}])))
    assert (verdict.reason, "redirected-to-survivor" in verdict.notes) == ("updated", True)
    assert numbers(server, "c") == [("3", ""), ("2", "old")]
    assert (await site.send(merging("1", "3"))).reason == "already-merged"
    assert numbers(server, "c") == [("3", ""), ("2", "old"), ("1", "old")]


async def test_survivor_merged_away_is_followed(site, server, two, identifier, merging):
    """A merge into a record that was itself merged goes to the head of the chain."""
    server.add("c", identifier=[identifier("3")], **PERSON)
    await (await opened(site)).send(merging("2", "3"))
    verdict = await site.send(merging("1", "2"))
    assert (verdict.reason, "redirected-to-survivor" in verdict.notes) == ("merged", True)
    assert server.effects[-2:] == ["merge a into c", "update c"]


async def test_source_merged_elsewhere_is_held(site, server, two, identifier, merging):
    """A source that was merged into somebody else is held, and all three records are named: by role and number."""
    server.add("c", identifier=[identifier("3")], **PERSON)
    await (await opened(site)).send(merging("1", "3"))
    verdict = await site.send(merging("1", "2"))
    assert verdict.reason == "source-merged-elsewhere"
    found = {
        role: (record, [one.rpartition("|")[2] for one in numbers]) for record, role, numbers, _ in verdict.involved
    }
    assert found["merged away"][0] == "Patient/a"
    assert found["its survivor"][0] == "Patient/c"
    assert found["named survivor"] == ("Patient/b", ["2"])


async def test_another_person_between_the_sides_is_held(site, server, identifier, merging):
    """Other names and another birth date on both sides hold the merge, which could not be undone."""
    server.add("a", identifier=[identifier("1")], **PERSON)
    server.add("b", identifier=[identifier("2")], name=[{"family": "Osei", "given": ["Kwame"]}], birthDate="1950-01-01")
    assert (await (await opened(site)).send(merging("1", "2"))).reason == "merge-conflict"
    await site.close()
    verdict = await (await opened(site, merge_conflict="flag")).send(merging("1", "2"))
    assert (verdict.reason, "merge-conflict" in verdict.notes) == ("merged", True)


async def test_a_decision_is_for_the_pair_that_was_held_alone(site, server, two, identifier, merging):
    """Of two pairs of different people one was decided: that one is merged, and the other waits for a decision."""
    other = {"name": [{"family": "Osei", "given": ["Kwame"]}], "birthDate": "1950-01-01"}
    server.add("c", identifier=[identifier("3")], **other)
    server.add("d", identifier=[identifier("4")], **other)
    pairs = merging("3", "1"), merging("4", "2")
    verdict = await (await opened(site)).send(*pairs)
    assert (verdict.reason, set(verdict.notes) >= {"merge-conflict 1", "merge-conflict 2"}) == ("merge-conflict", True)
    verdict = await site.send(*pairs, decided={"merge-conflict 2"})
    assert (verdict.kind, verdict.reason) == ("held", "merge-conflict")
    assert [effect for effect in server.effects if effect.startswith("merge ")] == ["merge d into b"]
    verdict = await site.send(*pairs, decided={"merge-conflict 1", "merge-conflict 2"})
    assert (verdict.kind, verdict.reason) == ("delivered", "merged")


@pytest.mark.parametrize(
    ("refused", "kind", "reason"),
    [
        pytest.param(
            {"name": [{"family": "Osei", "given": ["Kwame"]}], "birthDate": "1950-01-01"},
            "held",
            "merge-conflict",
            id="another person",
        ),
        pytest.param(None, "rejected", "self-merge", id="one record"),
    ],
)
async def test_a_group_that_is_refused_keeps_no_other_from_being_merged(
    site, server, two, identifier, merging, refused, kind, reason
):
    """An A40 of three groups, the second of which is no merge: the others are made, once however often it comes."""
    server.add("c", identifier=[identifier("3"), *([] if refused else [identifier("4")])], **PERSON)
    if refused:
        server.add("d", identifier=[identifier("4")], **refused)
    server.add("e", identifier=[identifier("5")], **PERSON)
    server.add("f", identifier=[identifier("6")], **PERSON)
    groups = merging("1", "2"), merging("3", "4"), merging("5", "6")
    for _ in range(2):
        verdict = await (await opened(site)).send(*groups)
        assert (verdict.kind.value, verdict.reason, verdict.applied) == (kind, reason, False)
        assert server.effects == ["merge a into b", "update b", "merge e into f", "update f"]
        await site.close()


async def test_a_failure_that_passes_stops_the_groups_behind(site, server, two, identifier, merging):
    """A server that is out of order for one group is tried again before the next one: order is kept."""
    server.add("e", identifier=[identifier("5")], **PERSON)
    server.add("f", identifier=[identifier("6")], **PERSON)
    await opened(site)
    server.script.append(Step("POST", 503))
    verdict = await site.send(merging("1", "2"), merging("5", "6"))
    assert (verdict.kind, server.effects) == (VerdictKind.RETRY, [])


async def test_a_merge_under_the_name_of_somebody_else_is_flagged_or_held(site, server, two, merging):
    """The PID speaks of another person than the survivor's record: as for any message that finds a record by number."""
    said = {"family": "Osei", "given": "Kwame", "gender": "male", "birthDate": "1950-01-01"}
    held = await (await opened(site, another_person="hold")).send(merging("1", "2", **said))
    assert (held.kind, held.reason, server.effects) == (VerdictKind.HELD, "overlay-suspected", [])
    await site.close()
    verdict = await (await opened(site)).send(merging("1", "2", **said))
    assert (verdict.reason, "overlay-suspected" in verdict.notes) == ("merged", True)


async def test_a_renamed_source_of_another_name_is_flagged(site, server, two, merging):
    """Where the survivor's number is given to the source instead, the PID is held against the source's record."""
    said = {"family": "Osei", "given": "Kwame", "gender": "male", "birthDate": "1950-01-01"}
    verdict = await (await opened(site, unknown_survivor="rename")).send(merging("1", "9", **said))
    assert (verdict.reason, "overlay-suspected" in verdict.notes) == ("renamed", True)


async def test_already_merged_needs_its_proof(site, server, identifier, merging):
    """An operator chose for the old number the record that the new one has, which nothing shows to be merged: held."""
    server.add("b", identifier=[identifier("2")], **PERSON)
    await opened(site)
    site.memory.identities[Identity(MRN, "1")] = KnownIdentifier(Identity(MRN, "1"), "b", "chosen")
    verdict = await site.send(merging("1", "2"))
    assert (verdict.kind, verdict.reason, server.effects) == (VerdictKind.HELD, "identity-unproven", [])


async def test_a_merge_that_the_server_has_lost_is_not_done(site, server, two, identifier, merging, patient):
    """The journal knows the merge, and the server went back to before the merged record: its number is kept again."""
    await (await opened(site)).send(merging("1", "2"))
    del server.patients["a"]
    server.touch("b", link=[], identifier=[identifier("2")])
    site.memory.identities.clear()
    assert (await site.send(merging("1", "2"))).reason == "source-absent"
    assert numbers(server, "b") == [("2", ""), ("1", "old")]


@pytest.mark.parametrize("strategy", ["auto", "link"])
async def test_a_merge_into_an_inactive_record_is_held(site, server, two, merging, strategy):
    """The survivor was set inactive (A29): nothing is sent, and the reason says why; a retry says the same."""
    server.touch("b", active=False)
    await opened(site, merge_strategy=strategy)
    verdict = await site.send(merging("1", "2"))
    assert (verdict.kind, verdict.reason, server.effects) == (VerdictKind.HELD, "survivor-inactive", [])
    assert [role for _, role, *_ in verdict.involved] == ["to be merged", "inactive survivor"]
    server.touch("b", active=True)
    assert (await site.send(merging("1", "2"))).reason in {"merged", "linked"}


@pytest.mark.parametrize("died", [{"deceasedDateTime": "2025-06-01"}, {"deceasedBoolean": True}], ids=["time", "fact"])
@pytest.mark.parametrize("carried", [[], ["telecom"], ["deceasedDateTime", "deceasedBoolean"]], ids="-".join)
async def test_a_death_is_not_lost_by_a_merge(site, server, two, merging, died, carried):
    """Only the merged record says that the patient died: held, or carried over and named."""
    server.touch("a", **died)
    verdict = await (await opened(site, carry_over=carried)).send(merging("1", "2"))
    if len(carried) < 2:
        assert (verdict.kind, verdict.reason) == (VerdictKind.HELD, "death-on-merged-record")
        assert (server.effects, verdict.attempts) == ([], ())
        released = await site.send(merging("1", "2"), decided=("death-on-merged-record",))
        assert (released.reason, "death-on-merged-record" in released.notes) == ("merged", True)
        return
    assert (verdict.reason, "death-on-merged-record" in verdict.notes) == ("merged", True)
    assert died.items() <= server.patients["b"].items()


async def test_a_death_that_both_tell_of_holds_nothing(site, server, two, merging):
    """Both are said to have died: merged, and nothing to tell."""
    server.touch("a", deceasedDateTime="2025-06-01")
    server.touch("b", deceasedBoolean=True)
    verdict = await (await opened(site)).send(merging("1", "2"))
    assert (verdict.reason, "death-on-merged-record" in verdict.notes) == ("merged", False)


async def test_a_death_that_the_survivor_denies_is_named(site, server, two, merging):
    """The survivor is said to live, and what is carried over never overwrites: merged, and named on the entry."""
    server.touch("a", deceasedDateTime="2025-06-01")
    server.touch("b", deceasedBoolean=False)
    verdict = await (await opened(site, carry_over=["deceasedDateTime"])).send(merging("1", "2"))
    assert (verdict.reason, "death-on-merged-record" in verdict.notes) == ("merged", True)


async def test_only_a_number_that_stands_for_the_merged_record_becomes_old(site, server, two, merging):
    """MRG lists a social security number beside: it is the patient's still, and comes with a message as one in use."""
    security = {"system": "http://hl7.org/fhir/sid/us-ssn", "value": "123-45-6789"}
    given = merging("1", "2")
    await opened(site)
    merge = given._replace(source_identifiers=(*given.source_identifiers, security))
    for ending in ("merged", "already-merged"):
        assert (await site.send(merge)).reason == ending
        assert numbers(server, "b") == [("2", ""), ("1", "old")]


WAYS = pytest.mark.parametrize(
    ("merges", "shows"),
    [(True, "survivor"), (True, "tombstone"), (False, "tombstone")],
    ids=["$merge", "$merge, tombstones shown", "links"],
)


@WAYS
@pytest.mark.parametrize("known", [True, False], ids=["known", "absent"])
async def test_the_survivor_bears_the_merged_number_as_old(site, server, two, merging, patient, known, merges, shows):
    """One rule, whether the merged record was known: its number stands on the survivor, finds it, and stays old."""
    server.merges, server.survivor_for_old_numbers = merges, shows == "survivor"
    if not known:
        del server.patients["a"]
    await opened(site)
    assert (await site.send(merging("1", "2"))).reason in {"merged", "linked", "source-absent"}
    assert numbers(server, "b") == [("2", ""), ("1", "old")]
    done = list(server.effects)
    assert (await site.send(merging("1", "2"))).reason == "already-merged"
    assert server.effects == done
    for forgotten in (False, True):
        if forgotten:
            site.memory.identities.clear()
            site.memory.pairs.clear()
        verdict = await site.send(Upsert(patient("1", telecom=[{"value": f"9{forgotten}"}])), replay=forgotten)
        assert (verdict.reason, server.patients["b"]["telecom"]) == ("updated", [{"value": f"9{forgotten}"}])
        assert ("redirected-to-survivor" in verdict.notes) == known
        other = patient("1", family="Osei", given="Kwame", birthDate="1950-01-01")
        assert (await site.send(Upsert(other))).reason == "merged-identifier-reused"
    assert (await site.send(merging("2", "1"))).reason == "merge-cycle"
    assert numbers(server, "b") == [("2", ""), ("1", "old")]


@WAYS
async def test_a_merge_that_another_has_made_gives_the_number_too(
    site, server, two, identifier, merging, merges, shows
):
    """Merged at the server by somebody else, and an A40 of it comes later: the survivor bears the number then."""
    server.merges, server.survivor_for_old_numbers = merges, shows == "survivor"
    server.touch("a", active=False, link=[{"other": {"reference": "Patient/b"}, "type": "replaced-by"}])
    server.touch("b", link=[{"other": {"reference": "Patient/a"}, "type": "replaces"}])
    await opened(site)
    assert (await site.send(merging("1", "2"))).reason == "already-merged"
    assert numbers(server, "b") == [("2", ""), ("1", "old")]
    assert server.effects == ["update b"]


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(Step("PUT", 503, path="Patient/b"), id="not taken"),
        pytest.param(Step("PUT", commit=True, drop=True, path="Patient/b"), id="answer lost"),
        pytest.param(Step("PUT", 412, path="Patient/b"), id="written by another"),
    ],
)
async def test_an_old_number_that_was_not_written_is_written_by_the_next_try(site, server, two, merging, step):
    """The merge is done and the survivor's update fails: tried again, and neither is done twice."""
    await opened(site)
    server.script.append(step)
    verdict = await site.send(merging("1", "2"))
    if verdict.kind is VerdictKind.RETRY:
        verdict = await site.send(merging("1", "2"), ambiguous=True, attempts_made=2)
    assert verdict.reason in {"merged", "already-merged"}
    assert numbers(server, "b") == [("2", ""), ("1", "old")]
    assert server.effects == ["merge a into b", "update b"]


@pytest.mark.parametrize("known", [True, False], ids=["known", "absent"])
async def test_a_server_that_refuses_the_old_number_has_merged_all_the_same(site, server, two, merging, known):
    """It takes no old number: noted, and the merge counts."""
    if not known:
        del server.patients["a"]
    await opened(site)
    server.script.append(Step("PUT", 422, path="Patient/b"))
    verdict = await site.send(merging("1", "2"))
    assert (verdict.reason, "old-number-not-kept" in verdict.notes) == ("merged" if known else "source-absent", True)


async def test_a_survivor_that_is_somebody_elses_after_the_merge_gets_no_number(site, server, two, identifier, merging):
    """The server went back between merge and update, and the survivor's id is Wally's now: nothing of it is written."""
    await opened(site)
    wally = {"name": [{"family": "Osei", "given": ["Kwame"]}], "birthDate": "1950-01-01"}

    def restore(method, path):
        if (method, path) == ("GET", "Patient/b") and "merge a into b" in server.effects:
            server.add("b", identifier=[identifier("8")], **wally)
            server.patients.pop("a", None)

    server.before = restore
    await site.send(merging("1", "2"))
    assert server.effects == ["merge a into b"]
    assert numbers(server, "b") == [("8", "")]


@pytest.mark.parametrize("known", [True, False], ids=["known", "absent"])
@pytest.mark.parametrize("told", [True, False], ids=["told", "from the journal"])
async def test_an_old_number_that_somebody_else_has_by_now_is_held(
    site, server, two, identifier, merging, patient, known, told
):
    """Given out again at the server: neither the survivor, whose body is remembered, nor the other one is chosen."""
    server.unique_mrn = False
    if not known:
        del server.patients["a"]
    await opened(site)
    await site.send(merging("1", "2"))
    for phone in ("5", "6", "7") if told else ():  # the second shows that If-Match counts: bodies are remembered then
        await site.send(Upsert(patient("1", "2", telecom=[{"value": phone}])))
    server.add("c", identifier=[identifier("1")], **PERSON)
    before = list(server.effects)
    verdict = await site.send(Upsert(patient("1", telecom=[{"value": "8"}])))
    assert (verdict.kind, verdict.reason, server.effects) == (VerdictKind.HELD, "ambiguous-identity", before)
    again = await site.send(merging("1", "2"), replay=True)
    assert (again.kind, server.effects) == (VerdictKind.HELD, before)


async def test_what_was_merged_away_stays_known_as_such(site, server, two, merging, patient):
    """Messages under the old number, alone and beside the new one: the journal still tells of the merge."""
    await opened(site)
    await site.send(merging("1", "2"))
    for who in (patient("1", telecom=[{"value": "7"}]), patient("2", "1", telecom=[{"value": "8"}])):
        assert (await site.send(Upsert(who))).reason == "updated"
        known = site.memory.identities[Identity(MRN, "1")]
        assert (known.logical_id, known.status, known.survivor) == ("a", "merged-away", "b")


async def test_a_survivor_without_its_links_is_known_by_the_tombstone(site, server, two, identifier, merging, renaming):
    """The survivor bears the number as old and does not say whom it replaced; the record that it replaced does."""
    server.survivor_for_old_numbers = server.unique_mrn = False
    server.touch("b", identifier=[identifier("1", use="old"), identifier("2")])
    server.touch("a", active=False, link=[{"other": {"reference": "Patient/b"}, "type": "replaced-by"}])
    server.patients = {name: server.patients[name] for name in ("b", "a")}
    await opened(site)
    assert (await site.send(renaming("1", "3"))).reason == "source-merged-elsewhere"
    assert (await site.send(merging("2", "1"))).reason == "merge-cycle"
    assert server.effects == []


async def test_unknown_source_is_recorded_as_old(site, server, identifier, merging):
    """A source nobody knows: its number is kept on the survivor as old; no merge."""
    server.add("b", identifier=[identifier("2")], **PERSON)
    verdict = await (await opened(site)).send(merging("1", "2"))
    assert verdict.reason == "source-absent"
    assert server.patients["b"]["identifier"][1]["use"] == "old"


@pytest.mark.parametrize(
    ("policy", "kind"), [("hold", VerdictKind.HELD), ("reject", VerdictKind.REJECTED)], ids=["hold", "reject"]
)
async def test_unknown_source_follows_the_policy(site, server, identifier, merging, policy, kind):
    """A source nobody knows is held or rejected where the channel says so."""
    server.add("b", identifier=[identifier("2")], **PERSON)
    verdict = await (await opened(site, unknown_source=policy)).send(merging("1", "2"))
    assert (verdict.kind, verdict.reason, server.effects) == (kind, "unknown-source", [])


async def test_unknown_survivor_with_a_thin_pid_renames_the_source(site, server, identifier, merging):
    """A PID that lacks what the server requires: the source's number is changed instead."""
    server.add("a", identifier=[identifier("1")], **PERSON)
    verdict = await (await opened(site)).send(merging("1", "2"))
    assert verdict.reason == "renamed"
    assert numbers(server, "a") == [("1", "old"), ("2", "")]


@pytest.mark.parametrize(
    ("policy", "kind", "reason"),
    [
        pytest.param("rename", VerdictKind.DELIVERED, "renamed", id="rename"),
        pytest.param("hold", VerdictKind.HELD, "unknown-survivor", id="hold"),
    ],
)
async def test_unknown_survivor_follows_the_policy(site, server, identifier, merging, policy, kind, reason):
    """A survivor nobody knows, with a whole PID: the source is renamed or the merge held where the channel says so."""
    server.add("a", identifier=[identifier("1")], **PERSON)
    said = {"family": "Quintero", "given": "Marisol", "gender": "female", "birthDate": "1984-02-29"}
    verdict = await (await opened(site, unknown_survivor=policy)).send(merging("1", "2", **said))
    assert (verdict.kind, verdict.reason) == (kind, reason)
    assert server.effects == (["update a"] if policy == "rename" else [])


async def test_unknown_survivor_takes_over_what_the_pid_lacks(site, server, identifier, merging):
    """A survivor made from the PID has all that the source has beyond it, then takes its place."""
    server.add("a", identifier=[identifier("1")], telecom=[{"value": "5"}], **PERSON)
    said = {"family": "Quintero", "given": "Marisol", "gender": "female", "birthDate": "1984-02-29"}
    verdict = await (await opened(site)).send(merging("1", "2", **said))
    assert verdict.reason == "merged"
    assert server.effects == ["create p1", "merge a into p1", "update p1"]
    assert server.patients["p1"]["telecom"] == [{"value": "5"}]


@pytest.mark.parametrize("merged", [False, True], ids=["before-the-merge", "after-the-merge"])
async def test_survivor_made_before_a_kill_is_owned_after_it(site, server, identifier, merging, patient, merged):
    """A life that made the survivor and died left no record of it; the next one still knows what is its own."""
    said = {"family": "Quintero", "given": "Marisol", "gender": "female", "birthDate": "1984-02-29"}
    said["telecom"] = [{"value": "5"}]
    server.add("a", identifier=[identifier("1")], **PERSON)
    await (await opened(site)).send(merging("1", "2", **said))
    if not merged:
        server.patients["a"] = {**server.patients["a"], "active": True, "link": []}
        server.touch("p1", link=[], identifier=[identifier("2")])
    await site.close()
    site.memory = type(site.memory)()
    verdict = await (await opened(site)).send(merging("1", "2", **said), ambiguous=True, attempts_made=3)
    assert verdict.reason == ("already-merged" if merged else "merged")
    await site.send(Upsert(patient("2", telecom=[{"value": "6"}])))
    assert server.patients["p1"]["telecom"] == [{"value": "6"}]


async def test_neither_known_and_too_thin_is_nothing_to_merge(site, server, merging):
    """Two unknown numbers and no demographics: nothing is written."""
    verdict = await (await opened(site)).send(merging("1", "2"))
    assert (verdict.kind, verdict.reason, server.effects) == (VerdictKind.DELIVERED, "nothing-to-merge", [])


async def test_neither_known_with_demographics_makes_the_survivor(site, server, merging):
    """Two unknown numbers and a whole PID: the survivor is made, or the record that matches takes both numbers."""
    said = {"family": "Quintero", "given": "Marisol", "gender": "female", "birthDate": "1984-02-29"}
    server.add("a", **PERSON)
    verdict = await (await opened(site)).send(merging("1", "2", **said))
    assert (verdict.reason, server.effects) == ("source-absent", ["update a"])
    assert numbers(server, "a") == [("2", ""), ("1", "old")]


async def test_carry_over_goes_to_the_survivor_first(site, server, two, merging):
    """What the site wants kept is given to the survivor before the merge."""
    await (await opened(site, carry_over=["telecom"])).send(merging("1", "2"))
    assert server.effects == ["update b", "merge a into b", "update b"]
    assert server.patients["b"]["telecom"] == [{"value": "5"}]
    assert numbers(server, "b") == [("2", ""), ("1", "old")]


@pytest.mark.parametrize(
    ("kept", "after"),
    [
        pytest.param({}, {"deceasedDateTime": "2026-03-01"}, id="not said"),
        pytest.param({"deceasedBoolean": True}, {"deceasedDateTime": "2026-03-01"}, id="said without a time"),
        pytest.param({"deceasedBoolean": False}, {"deceasedBoolean": False}, id="said otherwise"),
    ],
)
async def test_a_time_of_death_is_carried_over_beside_no_indicator(site, server, identifier, merging, kept, after):
    """A record says of death one thing: the survivor's word stands, unless the source says the same and more."""
    server.add("a", identifier=[identifier("1")], deceasedDateTime="2026-03-01", **PERSON)
    server.add("b", identifier=[identifier("2")], **PERSON, **kept)
    await (await opened(site, carry_over=["deceasedDateTime", "deceasedBoolean"])).send(merging("1", "2"))
    found = {name: value for name, value in server.patients["b"].items() if name.startswith("deceased")}
    assert (found, server.effects[-2:]) == (after, ["merge a into b", "update b"])


async def test_server_without_merge_gets_links(site, server, two, merging):
    """Without $merge: replaces on the survivor first, then replaced-by and inactive on the source, both versioned."""
    server.merges = False
    server.survivor_for_old_numbers = False
    verdict = await (await opened(site)).send(merging("1", "2"))
    assert verdict.reason == "linked"
    assert server.effects == ["update b", "update a", "update b"]
    assert server.patients["a"]["active"] is False
    assert (await site.send(merging("1", "2"))).reason == "already-merged"


async def test_abilities_are_asked_for_before_the_first_merge(site, server, two, merging):
    """A destination that was not checked yet asks for the server's abilities, and waits while it does not tell."""
    server.script.append(Step("GET", 503, path="metadata"))
    assert (await site.open().send(merging("1", "2"))).failure is Failure.TRANSIENT
    assert (await site.send(merging("1", "2"))).reason == "merged"


async def test_server_that_tells_nothing_holds_merges(site, server, two, merging):
    """Without a CapabilityStatement and without a configured strategy nothing that cannot be undone is done."""
    server.script.append(Step("GET", 404, path="metadata"))
    verdict = await site.open().send(merging("1", "2"))
    assert (verdict.kind, verdict.reason, server.effects) == (VerdictKind.HELD, "merge-strategy-unknown", [])


async def test_half_linked_merge_is_finished(site, server, two, merging):
    """A link merge that was broken off after the first write is finished by the next attempt."""
    server.merges = False
    server.survivor_for_old_numbers = False
    await opened(site)
    server.script.append(Step("PUT", 503, path="Patient/a"))
    assert (await site.send(merging("1", "2"))).failure is Failure.TRANSIENT
    assert (await site.send(merging("1", "2"))).reason == "linked"
    assert server.effects == ["update b", "update a", "update b"]


async def test_notify_only_writes_nothing(site, server, two, merging):
    """With notify-only the merge is told and not carried out."""
    verdict = await (await opened(site, merge_strategy="notify-only")).send(merging("1", "2"))
    assert (verdict.reason, server.effects) == ("notify-only", [])


async def test_source_numbers_of_two_records_are_held(site, server, two, identifier, merging):
    """A merged side whose numbers lead to two records is held for its list: none of the numbers need be wrong."""
    server.add("c", identifier=[identifier("3")], **PERSON)
    given = merging("1", "3")
    both = Merge(
        given.source, given.target, (*given.sources, Identity(MRN, "2")), given.source_identifiers, given.survivor
    )
    assert (await (await opened(site)).send(both)).reason == "merge-lists-several"
    assert server.effects == []


async def test_reused_number_is_held(site, server, two, merging, patient):
    """A merged-away number that speaks of another person was given out again: held."""
    await (await opened(site)).send(merging("1", "2"))
    other = patient("1", family="Osei", given="Kwame", birthDate="1950-01-01")
    assert (await site.send(Upsert(other))).reason == "merged-identifier-reused"


DELIVER = """
import asyncio, sys
from datetime import UTC, datetime
from engine import fault
from engine.config.channel import Channel
from engine.deliver.destination import FhirDestination
from engine.fhir.plan import ElementChange, Identity, Merge, PatientRecord, Plan
base, armed, system = sys.argv[1:]
class Blank:
    async def known(self, identities): return {}
    async def owned(self, resource, source): return {}
    async def claimed(self, resource, source): return frozenset()
    async def merged(self, source, survivor): return False
    async def survivor(self, logical_id): return ""
    async def leads(self, source, survivors): return False
async def intend(request): pass
async def main():
    channel = Channel.model_validate({"channel": "c", "listen": {"mllp": {"port": 0}}, "destinations": [
        {"name": "d", "base_url": base, "if_none_exist": "demographics", "carry_over": ["telecom"]}]})
    at = datetime(2026, 3, 1, tzinfo=UTC)
    destination = FhirDestination(channel.destinations[0], channel, clock=lambda: at, new_id=str)
    await destination.check()
    one, two = Identity(system, "1"), Identity(system, "2")
    survivor = PatientRecord((two,), ({"system": system, "value": "2"},), (), False)
    merge = Merge(one, two, (one,), ({"system": system, "value": "1"},), survivor)
    fault.arm(armed)
    await destination.deliver(Plan("A40", "s", at, 14, (merge,)), Blank(), intend, at=at)
asyncio.run(main())
"""


@pytest.mark.process
@pytest.mark.parametrize("merges", [True, False], ids=["$merge", "links"])
@pytest.mark.parametrize("armed", ["F12", "F13", "F14", *(f"F18:{step}" for step in (1, 2, 3, 4))])
async def test_merge_survives_death_after_each_step(site, server, two, merging, armed, merges):
    """Killed anywhere within a merge, the next attempt finishes it: one merge, nothing half done."""
    server.merges = server.survivor_for_old_numbers = merges
    point, _, nth = armed.partition(":")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", DELIVER, server.base, f"{point}:kill:{nth or 1}", MRN), stderr=subprocess.PIPE
    )
    await process.communicate()
    await asyncio.sleep(0.1)
    assert process.returncode in ({-signal.SIGKILL, 0} if point == "F18" else {-signal.SIGKILL})
    await opened(site, carry_over=["telecom"])
    verdict = await site.send(merging("1", "2"), ambiguous=True)
    assert verdict.reason in {"merged", "linked", "already-merged"}
    done = [effect for effect in server.effects if effect != "update b" or merges is False]
    assert done.count("merge a into b") == (1 if merges else 0)
    assert server.patients["a"]["active"] is False
    assert [link["type"] for link in server.patients["a"]["link"]] == ["replaced-by"]
    assert [link["type"] for link in server.patients["b"]["link"]] == ["replaces"]
    assert server.patients["b"]["telecom"] == [{"value": "5"}]
    assert numbers(server, "b") == [("2", ""), ("1", "old")]
