"""Bugs in the service's store and its resources: tenants, versions, merges, the access log."""

from typing import Final

from tests.seeded.bug import Bug
from tests.seeded.change import Code, Drop, Swap, Text, Unwrap, Value

BUGS: Final = (
    Bug(
        "one hospital reads another one's patients",
        "engine.interchange.store.transaction:BY_ID",
        Text("tenant=? AND", "tenant>=? * 0 AND"),
        (
            "interchange/test_access.py",
            "interchange/test_walk.py",
            "interchange/test_store.py",
        ),
    ),
    Bug(
        "a search finds another hospital's patients",
        "engine.interchange.store.query:LIVE",
        Text("tenant = ? AND", "tenant >= ? * 0 AND"),
        (
            "interchange/test_search.py",
            "interchange/test_walk.py",
            "interchange/test_access.py",
        ),
    ),
    Bug(
        "a number is refused because another hospital uses it",
        "engine.interchange.store.transaction:HOLDERS",
        Text("tenant=? AND", "tenant>=? * 0 AND"),
        (
            "interchange/test_create.py",
            "interchange/test_access.py",
        ),
    ),
    Bug(
        "two patients carry one medical record number",
        "engine.interchange.rest.patient.write:check_record_numbers",
        Value("any(...)", "False"),
        (
            "interchange/test_create.py",
            "interchange/test_update.py",
        ),
    ),
    Bug(
        "a conditional create takes one of several matches",
        "engine.interchange.rest.resource.precondition:match_condition",
        Value("found.total > 1", "False"),
        ("interchange/test_create.py",),
    ),
    Bug(
        "a late update overwrites a newer one",
        "engine.interchange.rest.resource.precondition:Precondition.check",
        Code("not _among(self.match, stored)", "stored is None"),
        ("interchange/test_update.py",),
    ),
    Bug(
        "a refused write is kept with the others of its commit",
        "engine.interchange.store.sqlite:SqliteWriter._do",
        Drop("self._connection.execute('ROLLBACK TO job')"),
        (
            "interchange/test_store.py",
            "interchange/test_fault_points.py",
        ),
    ),
    Bug(
        "after a merge the old number finds nobody",
        "engine.interchange.store.transaction:Transaction.retire",
        Drop("self.connection.execute(MOVE_IDENTIFIERS, ...)"),
        ("interchange/test_merge.py",),
    ),
    Bug(
        "a result still refers to the merged-away patient after a merge",
        "engine.interchange.store.references:redirected",
        Drop("execute(REDIRECT, ...)"),
        (
            "interchange/test_merge_references.py",
            "interchange/test_merge.py",
        ),
    ),
    Bug(
        "a merged-away patient is written to as if it were active",
        "engine.interchange.rest.patient.write:_replace",
        Value("stored.survivor is not None", "False"),
        (
            "interchange/test_merge.py",
            "interchange/test_update.py",
        ),
    ),
    Bug(
        "a read is answered that a kill leaves out of the access log",
        "engine.interchange.core.audit.recorder:Recorder.record",
        Unwrap("self._begin(...)"),
        ("interchange/test_fault_points.py",),
    ),
    Bug(
        "a write and its record in the access log are two commits",
        "engine.interchange.store.store:Store.write.recorded",
        Drop("pending.keep(...)"),
        ("interchange/test_fault_points.py",),
    ),
    Bug(
        "a write is answered before it is on the disk",
        "engine.interchange.store.sqlite:SqliteWriter._commit",
        Code("for job in batch:\n    self._do(job)", "for job in batch:\n    self._do(job)\nwake(batch)"),
        ("interchange/test_fault_points.py",),
    ),
    Bug(
        "a row of the access log is changed without a trace",
        "engine.interchange.store.access:hashed",
        Code("(seq, *row)", "(seq, *row[:7])"),
        ("interchange/test_access_log.py",),
    ),
    Bug(
        "an auditor reads another hospital's log",
        "engine.interchange.core.audit.reading:_where",
        Code(
            "('tenant=?' if patient is None else 'seq=found AND tenant=?', (tenant,))",
            "('tenant<>?' if patient is None else 'seq=found AND tenant<>?', ('',))",
        ),
        ("interchange/test_access_search.py",),
    ),
    Bug(
        "a search leaves a row of the access log out",
        "engine.interchange.core.audit.reading:_altid",
        Text("AND client<>?", "AND client<>? AND client=login"),
        ("interchange/test_access_search.py",),
    ),
    Bug(
        "a search finds a value that the patient no longer has",
        "engine.interchange.store.index:_write",
        Drop("connection.executemany(drop, ...)"),
        (
            "interchange/test_fault_points.py",
            "interchange/test_update.py",
        ),
    ),
    Bug(
        "one patient's token reads former versions of another patient's record",
        "engine.interchange.rest.resource.context:_step",
        Code(
            "if level is InteractionLevel.INSTANCE and code in READS:\n    return ...",
            "if level is InteractionLevel.INSTANCE and code in READS:\n"
            "    return _allow if directory or code == 'vread' else _check_instance",
        ),
        ("interchange/test_context_walk.py",),
    ),
    Bug(
        "a patch at the root moves a resource to another patient",
        "engine.interchange.rest.resource.context:_changed",
        Drop("''"),
        ("interchange/test_patient_context.py",),
    ),
    Bug(
        "a patch moves the patient reference away, and a resource out of the record",
        "engine.interchange.rest.resource.context:_changing",
        Drop("'from'"),
        ("interchange/test_patient_context.py",),
    ),
    Bug(
        "the preview of a merge shows two records to a client that may not read",
        "engine.interchange.rest.merge:merge_patients",
        Drop("_demand_reading(...)"),
        ("interchange/test_access.py",),
    ),
    Bug(
        "a replacement shows the stored resource to a client that may not read",
        "engine.interchange.rest.resource.update:updating.update",
        Code(
            "status == 201 or may_see(service.configuration, request.principal, request.type, "
            "own=bool(request.within))",
            "status in {200, 201} or may_see(service.configuration, request.principal, request.type, "
            "own=bool(request.within))",
        ),
        ("interchange/test_access.py",),
    ),
    Bug(
        "a chart looks empty to a client that names the patient by an observation",
        "engine.interchange.store.search.parse:_reference",
        Code(
            "match[1] and parameter.name in OF_ONE_TYPE and (match[1] not in parameter.targets)",
            "not match[1] and parameter.name in OF_ONE_TYPE and (match[1] not in parameter.targets)",
        ),
        ("interchange/test_references.py",),
    ),
    Bug(
        "a chart looks empty to a client that sends a blank after the id",
        "engine.interchange.store.search.parse:TARGET",
        Code("f'(?:([A-Za-z]+)/)?(?:{ID.pattern})'", "f'(?:([A-Za-z]+)/)?[^/]+'"),
        ("interchange/test_references.py",),
    ),
    Bug(
        "a search by a number with a leading blank looks like an unknown patient",
        "engine.interchange.store.search.parse:_check_blanks",
        Drop("code != code.strip()"),
        ("interchange/test_references.py",),
    ),
    Bug(
        "an event in a leap second is found in the next year",
        "engine.interchange.store.search.date:span",
        Swap("59", "60"),
        ("interchange/test_stored_dates.py",),
    ),
    Bug(
        "a job that crashes the process does so at every start, for ever",
        "engine.interchange.store.job:HOPELESS",
        Text("crashes>=?", "crashes<0 AND crashes>=?"),
        (
            "interchange/test_job_kills.py",
            "interchange/test_job_model.py",
        ),
    ),
    Bug(
        "the count of versions includes one that is not kept",
        "engine.interchange.store.history:versions_of_one",
        Value("first[0]", "1"),
        ("interchange/test_history.py",),
    ),
    Bug(
        "a document is still made of a patient who was merged away",
        "engine.interchange.rest.everything:find_patient",
        Code("stored.survivor is not None", "stored.survivor == patient_id"),
        ("interchange/ccda/test_export.py",),
    ),
    Bug(
        "the bytes of an order leave before its sending is on the disk",
        "engine.interchange.store.transmission:begin",
        Unwrap("sent"),
        (
            "interchange/laboratory/test_transmission.py",
            "interchange/laboratory/test_order_kills.py",
        ),
    ),
    Bug(
        "an order whose bytes have left can be cancelled after a refusal and a retry",
        "engine.interchange.store.transmission:withdraw",
        Value("doubtful(...)", "False"),
        ("interchange/laboratory/test_transmission.py",),
    ),
    Bug(
        "an order that a laboratory works on is deleted with its patient's chart",
        "engine.interchange.rest.resource.delete:delete_one",
        Value("taken.values()", "(stored,)", of=("for one in taken.values():\n    if one.type in rules:\n        ...")),
        ("interchange/orders/test_changing.py",),
    ),
    Bug(
        "a question has two names, and its answers are lost",
        "engine.interchange.rest.resource.draft:_item",
        Drop("'id'", of="_named(...)"),
        ("interchange/test_questionnaires.py",),
    ),
    Bug(
        "a result is linked to an order of another patient that it contains",
        "engine.interchange.rest.resource.links:_check_result",
        Code("target not in known or target.startswith('#')", "target not in known and (not target.startswith('#'))"),
        ("interchange/test_links.py",),
    ),
    Bug(
        "the total of a search for orders differs from the orders found",
        "engine.interchange.store.index:_count",
        Drop("new", of="gone - new"),
        ("interchange/test_code_counts.py",),
    ),
    Bug(
        "the last link of a result cannot be taken away",
        "engine.interchange.rest.resource.patch:_result",
        Drop("_drop_emptied(...)"),
        (
            "interchange/test_link_patches.py",
            "interchange/test_patch.py",
        ),
    ),
    Bug(
        "results kept under the former system of their category are no longer found",
        "engine.interchange.rest.resource.rows:_tokens",
        Unwrap("coding.get(...)"),
        ("interchange/test_code_systems.py",),
    ),
)
