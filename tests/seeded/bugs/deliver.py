"""Bugs in delivery: which record is meant, what is written, and what is merged."""

from typing import Final

from tests.seeded.bug import Bug
from tests.seeded.change import Add, Code, Drop, Swap, Unwrap, Value

BUGS: Final = (
    Bug(
        "a patient is written without the version that was read",
        "engine.deliver.stored:_Packed.unpacked",
        Value("self.tag", "''"),
        ("deliver/test_stored.py",),
    ),
    Bug(
        "a transaction is applied to its own outcome after the memory lapsed",
        "engine.deliver.resources.transaction:carry_out_bundled",
        Drop("server.recalled()"),
        ("deliver/resources/test_transaction.py",),
    ),
    Bug(
        "a release of one pair of a merge releases the other pairs, which nobody has looked at",
        "engine.deliver.wire.exchange:Exchange.hold",
        Value("... if self.place else code", "code"),
        ("deliver/merge/test_merge.py",),
    ),
    Bug(
        "the refused pair of several merges is not recorded",
        "engine.deliver.interactions:_refusal",
        Code("(f'{error.reason} {place}',)", "error.codes"),
        ("flow/test_acknowledge_delivered.py",),
    ),
    Bug(
        "a write is sent before its intent is in the journal",
        "engine.deliver.wire.exchange:Exchange.write",
        Drop("self._intend(...)"),
        (
            "deliver/patient/test_upsert.py",
            "deliver/merge/test_merge.py",
        ),
    ),
    Bug(
        "an update is sent without an intent to a server that ignores versions",
        "engine.deliver.wire.exchange:Exchange._repeats_safely",
        Drop("self.server.abilities.if_match"),
        ("deliver/patient/test_upsert.py",),
    ),
    Bug(
        "a Provenance after a kill omits what was written before it",
        "engine.deliver.destination:REPEATABLE",
        Code("(Upsert, Keep, Find)", "(object,)"),
        ("deliver/patient/test_upsert.py",),
    ),
    Bug(
        "an OperationOutcome of errors in a 200 counts as success",
        "engine.deliver.wire.exchange:Exchange.write",
        Value("outcome.is_fault(...)", "False"),
        (
            "deliver/patient/test_upsert.py",
            "deliver/merge/test_merge.py",
            "deliver/wire/test_client.py",
        ),
    ),
    Bug(
        "a change of the patient by another system is overwritten",
        "engine.deliver.patient.upsert:_update",
        Value("patient.if_match", "()"),
        ("deliver/patient/test_upsert.py",),
    ),
    Bug(
        "a record is reported as unchanged although nobody has read it",
        "engine.deliver.patient.upsert:_update",
        Value("not patient.fresh", "False"),
        ("deliver/patient/test_upsert.py",),
    ),
    Bug(
        "a patient deleted at the source comes back with any message",
        "engine.deliver.patient.upsert:_active",
        Unwrap("interaction"),
        ("deliver/patient/test_upsert.py",),
    ),
    Bug(
        "the first of two charts is chosen",
        "engine.deliver.patient.resolve:_only",
        Code("len(candidates) == 1", "candidates"),
        ("deliver/patient/test_upsert.py",),
    ),
    Bug(
        "the chart of another registration is taken for this one",
        "engine.deliver.patient.resolve:_another_registration",
        Value("any(...)", "False"),
        ("deliver/patient/test_upsert.py",),
    ),
    Bug(
        "a merge counts as done without a look at the result",
        "engine.deliver.merge.union:unite",
        Drop("raise unclear(...)"),
        ("deliver/merge/test_merge.py",),
    ),
    Bug(
        "a patient is merged into itself",
        "engine.deliver.merge.merge:_one_record",
        Code("raise RejectedDeliveryError(...)", "return 'already-merged'"),
        ("deliver/merge/test_merge.py",),
    ),
    Bug(
        "an inverse merge is carried out or passed over",
        "engine.deliver.merge.merge:_one_record",
        Code("raise HeldDeliveryError('merge-cycle')", "return 'already-merged'"),
        ("deliver/merge/test_merge.py",),
    ),
    Bug(
        "the reverse of a merge of an absent record counts as a self-merge",
        "engine.deliver.merge.merge:_one_record",
        Drop("carries(...) == 'old'"),
        ("deliver/merge/test_merge.py",),
    ),
    Bug(
        "the survivor loses the old number where both records exist",
        "engine.deliver.merge.merge:_two_records",
        Drop("_bearing(...)"),
        ("deliver/merge/test_merge.py",),
    ),
    Bug(
        "a kill between a merge and the survivor's update loses the old number",
        "engine.deliver.merge.merge:_one_record",
        Drop("_bearing(...)"),
        ("deliver/merge/test_merge.py",),
    ),
    Bug(
        "an old number is given to another person who has the survivor's id after a restore",
        "engine.deliver.merge.merge:_bearing",
        Drop("not fresh.same_as(...)"),
        ("deliver/merge/test_merge.py",),
    ),
    Bug(
        "a merge takes a social security number out of use",
        "engine.deliver.merge.merge:_bearing",
        Drop("number_of(...) in interaction.sources"),
        ("deliver/merge/test_merge.py",),
    ),
    Bug(
        "an old number that came with a merge counts as the survivor's own",
        "engine.deliver.patient.resolve:_followed",
        Swap("bears_current", "carries_any"),
        (
            "deliver/merge/test_merge.py",
            "deliver/merge/test_rename.py",
        ),
    ),
    Bug(
        "the survivor's old number hides the record that it replaced",
        "engine.deliver.patient.resolve:_rank",
        Code("return 1", "return -1"),
        ("deliver/merge/test_merge.py",),
    ),
    Bug(
        "the journal answers for an old number that another person has by now",
        "engine.deliver.patient.resolve:_certain",
        Drop("OLD"),
        ("deliver/merge/test_merge.py",),
    ),
    Bug(
        "a remembered body answers for an old number that another person has by now",
        "engine.deliver.patient.remember:remember",
        Swap("current", "carried", of="cache.put(...)"),
        ("deliver/merge/test_merge.py",),
    ),
    Bug(
        "a message under an old number makes the journal forget its merge",
        "engine.deliver.patient.remember:remember",
        Drop("known.status != MERGED_AWAY"),
        ("deliver/merge/test_merge.py",),
    ),
    Bug(
        "two people are merged whose names and birth dates differ",
        "engine.deliver.merge.merge:_two_records",
        Swap("'hold'", "'never'"),
        ("deliver/merge/test_merge.py",),
    ),
    Bug(
        "a chart that was merged elsewhere is merged once more",
        "engine.deliver.merge.merge:_both_known",
        Value("_retired(...)", "False"),
        ("deliver/merge/test_merge.py",),
    ),
    Bug(
        "a number given out again overwrites the chart that had it before",
        "engine.deliver.patient.resolve:check_found",
        Drop("out_of_use(...)"),
        ("deliver/patient/test_overlay.py",),
    ),
    Bug(
        "a search of a minute ago is trusted over what was written since",
        "engine.deliver.patient.unseen:search_patients",
        Value("known.values()", "()"),
        ("deliver/patient/test_unseen.py",),
    ),
    Bug(
        "the journal follows one merge only, not a chain of them",
        "engine.deliver.patient.absorbed:trail_of",
        Value("_merged_here(...) or await exchange.memory.survivor(...)", "''"),
        ("deliver/patient/test_absorbed.py",),
    ),
    Bug(
        "the source of a merge is written before the survivor, and a crash leaves neither in use",
        "engine.deliver.merge.union:_link",
        Code(
            "await revise(exchange, survivor, replaces)\nfault.point('F18')\nawait revise(exchange, source, replaced)",
            "await revise(exchange, source, replaced)\n"
            "await revise(exchange, survivor, replaces)\n"
            "await revise(exchange, source, replaced)",
        ),
        ("deliver/merge/test_merge.py",),
    ),
    Bug(
        "a change of number makes two patients one",
        "engine.deliver.merge.rename:_one_record",
        Code(
            "if source.patient.logical_id != target.patient.logical_id:\n    raise HeldDeliveryError(...)",
            "if source.patient.logical_id != target.patient.logical_id:\n    return source",
        ),
        ("deliver/merge/test_rename.py",),
    ),
    Bug(
        "a visit goes to another patient",
        "engine.deliver.resources.found:owner_of",
        Code("raise HeldDeliveryError(...)", "return None"),
        ("deliver/resources/test_visits.py",),
    ),
    Bug(
        "a message without a number takes one of two visits that began in the same minute",
        "engine.deliver.resources.admitted:_without_number",
        Value("len(then) > 1", "False"),
        ("deliver/resources/test_admitted.py",),
    ),
    Bug(
        "a second number is given to a visit that has one",
        "engine.deliver.resources.admitted:_to_number",
        Code("[one for one in then if is_unnumbered(one.body, interaction.record)]", "list(then)"),
        ("deliver/resources/test_admitted.py",),
    ),
    Bug(
        "a second patient is left behind after a race of two creates",
        "engine.deliver.patient.create:_made",
        Value("others", "False", of=("if others:\n    ...")),
        ("deliver/patient/test_upsert.py",),
    ),
    Bug(
        "somebody with the same name and birth date gets this patient's number",
        "engine.deliver.patient.create:_judged",
        Drop("any(...)"),
        ("deliver/patient/test_upsert.py",),
    ),
    Bug(
        "a write without an answer is repeated without a look",
        "engine.deliver.wire.failure:STATUS_FAILURE",
        Add("{500: Failure.PERMANENT}"),
        ("deliver",),
    ),
    Bug(
        "a body from before a restore is written over another person who has its id by now",
        "engine.deliver.stored:Cache.doubt",
        Drop("self._era += 1"),
        ("deliver/test_restored.py",),
    ),
    Bug(
        "a body is remembered for as long as the feed runs",
        "engine.deliver.stored:Cache.find",
        Code("LIFE_SECONDS", "1000 * LIFE_SECONDS"),
        ("deliver/test_restored.py",),
    ),
    Bug(
        "memory outlives a restart of the server",
        "engine.deliver.wire.server:Continuity.broken",
        Drop("self._forget()"),
        ("deliver/test_restored.py",),
    ),
    Bug(
        "two other people are merged after a restore between preview and merge",
        "engine.deliver.merge.union:unite",
        Drop("not now.same_as(...)"),
        ("deliver/test_restored.py",),
    ),
    Bug(
        "the id of a survivor that is another person's by now proves a merge",
        "engine.deliver.patient.absorbed:_leads",
        Code(
            "if survivor.logical_id in trail or not trail:\n    return False",
            "if survivor.logical_id in trail or not trail:\n    return bool(trail)",
        ),
        (
            "deliver/test_restored.py",
            "deliver/patient/test_absorbed.py",
        ),
    ),
    Bug(
        "the journal's survivor is used although the record is another person's by now",
        "engine.deliver.patient.unseen:_survivor",
        Drop("has_taken_over(...)"),
        ("deliver/test_restored.py",),
    ),
    Bug(
        "a place that was known by its id before a restore is taken for another place",
        "engine.deliver.resources.found:_remembered",
        Drop("not carries(...)"),
        ("deliver/test_restored.py",),
    ),
    Bug(
        "another person's chart is deleted on the strength of memory",
        "engine.deliver.patient.upsert:upsert",
        Drop("not interaction.inactivate"),
        ("deliver/test_restored.py",),
    ),
    Bug(
        "an operator's choice outlives the number that it gave",
        "engine.deliver.patient.resolve:_chosen",
        Value("not carries_any(...)", "False"),
        ("deliver/test_restored.py",),
    ),
    Bug(
        "a merge is reported as done without proof",
        "engine.deliver.merge.merge:_one_record",
        Code(
            "how == 'old' or source.redirected or await replaced_with(exchange, patient, (interaction.source,))",
            "how is not None or await replaced_with(exchange, patient, (interaction.source,))",
        ),
        ("deliver/merge/test_merge.py",),
    ),
    Bug(
        "a merge loses that the patient has died",
        "engine.deliver.merge.merge:_check_death",
        Value("not died(...) or died(...)", "True"),
        ("deliver/merge/test_merge.py",),
    ),
    Bug(
        "a chart is merged into a record that is not in use",
        "engine.deliver.merge.merge:_two_records",
        Value("sides.survivor.body.get(...) is False", "False"),
        ("deliver/merge/test_merge.py",),
    ),
    Bug(
        "a number that is another patient's is sent again and again",
        "engine.deliver.patient.upsert:_update",
        Value("'duplicate-mrn' in exchange.attempts[-1].codes", "False"),
        ("deliver/patient/test_upsert.py",),
    ),
    Bug(
        "both of two merged visits go on, one under the number of the other",
        "engine.deliver.resources.resource_upsert:upsert_resource",
        Value("interaction.merges", "False"),
        ("deliver/resources/test_resource_upsert.py",),
    ),
    Bug(
        "a server that ignores If-Match counts as one that honours it",
        "engine.deliver.wire.revise:prove",
        Code("answer.status in _STALE", "answer.status > 0"),
        (
            "deliver/wire/test_abilities.py",
            "deliver/patient/test_upsert.py",
        ),
    ),
    Bug(
        "a server without look-ups is asked for its abilities at every admission",
        "engine.deliver.lookup:LookUpClient._known_base",
        Value("ASK_AGAIN_SECONDS", "0"),
        ("deliver/test_lookup.py",),
    ),
    Bug(
        "a notice that is sent again after a kill has a new id, and subscribers get one event twice",
        "engine.deliver.notice:Notice.identifier",
        Code("f'{OURS}{self.channel}:{self.digest.hex()}'", "f'{OURS}{self.channel}:{self.digest.hex()}:{id(self)}'"),
        ("deliver/test_notice.py",),
    ),
    Bug(
        "a notice of a patient who was deleted meanwhile carries the server's error",
        "engine.deliver.notice:NoticeClient._read",
        Value("GONE", "()"),
        ("deliver/test_notice.py",),
    ),
    Bug(
        "a server without notices is asked sixteen times for each event",
        "engine.deliver.notice:_reply",
        Swap("REFUSED", "RETRY", of="RequestReply(...)"),
        ("deliver/test_notice.py",),
    ),
    Bug(
        "a notice omits the visit of its message",
        "engine.deliver.destination:FhirDestination._outcome",
        Value("_visit(...)", "''"),
        ("deliver/test_notice.py",),
    ),
    Bug(
        "a result is written although its order is another patient's",
        "engine.deliver.resources.found:owner_of",
        Code(
            "not reference or reference == ours",
            "not reference or reference == ours or record.type == 'ServiceRequest'",
        ),
        ("flow/test_results.py",),
    ),
)
