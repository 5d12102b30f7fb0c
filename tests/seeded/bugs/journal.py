"""Bugs in the journal and its databases: what is kept, in which order it is delivered, and what a crash leaves."""

from typing import Final

from tests.seeded.bug import Bug
from tests.seeded.change import Add, Code, Drop, Swap, Text, Unwrap, Value

BUGS: Final = (
    Bug(
        "verification misses a number that a disk fault moved to another person's record",
        "engine.journal.row_digest:of_known",
        Drop("logical_id", of="_joined(...)"),
        ("journal/maintenance/test_row_digest.py",),
    ),
    Bug(
        "verification misses a changed bit in the body of a request",
        "engine.journal.row_digest:of_attempt",
        Unwrap("crc32(query, crc32(head))"),
        ("journal/maintenance/test_row_digest.py",),
    ),
    Bug(
        "verification misses a value that moved from one column to the next",
        "engine.journal.row_digest:_joined",
        Swap("'\\x00'", "''", of="'\\x00'.join(texts)"),
        ("journal/maintenance/test_row_digest.py",),
    ),
    Bug(
        "verification reports damage in a sound journal after a number gets a new record",
        "engine.journal.state.memory:KNOW",
        Text("excluded.survivor, crc = excluded.crc,", "excluded.survivor,"),
        ("journal/maintenance/test_row_digest.py",),
    ),
    Bug(
        "verification reports damage in a sound journal after retention takes the body of a request",
        "engine.journal.maintenance.retention:BODY",
        Text("query = x'', crc = NULL,", "query = x'',"),
        ("journal/maintenance/test_row_digest.py",),
    ),
    Bug(
        "verification reports as damage what an older node writes while newer ones run",
        "engine.journal.nodes.schema:CHANGED",
        Drop("'logical_id'"),
        ("journal/maintenance/test_row_digest.py",),
    ),
    Bug(
        "verification looks at the first page of rows only",
        "engine.journal.maintenance.verify:altered_rows",
        Value("_readable(...)", "None", of="after = _readable(...)"),
        ("journal/maintenance/test_row_digest.py",),
    ),
    Bug(
        "verification misses a row whose status a disk fault changed",
        "engine.journal.maintenance.verify:_is_as_written",
        Code("status not in KNOWN_STATUSES", "not status"),
        ("journal/maintenance/test_row_digest.py",),
    ),
    Bug(
        "the report of verification shows a patient's number",
        "engine.journal.maintenance.verify:_altered_row",
        Code(
            "return JournalFault('row-digest', 0, f'table {checked.name}: row {place} in the order of its key was "
            "{changed}')",
            "place = row[2]\n"
            "return JournalFault('row-digest', 0, f'table {checked.name}: row {place} in the order of its key was "
            "{changed}')",
        ),
        ("journal/maintenance/test_row_digest.py",),
    ),
    Bug(
        "a journal with damaged rows is copied as a sound one",
        "engine.journal.copying.copying:_proven",
        Drop("altered_rows(...)"),
        ("journal/maintenance/test_copy.py",),
    ),
    Bug(
        "a person with two records is closed by a merge with another person",
        "engine.journal.read.patients:_united",
        Code("logical_id in there", "logical_id in there or len(there) > 1"),
        ("journal/read/test_uniting.py",),
    ),
    Bug(
        "one of several possible duplicates is merged, and the others are closed with it",
        "engine.journal.read.patients:_merge_of",
        Code("max(merges) if merges and all(merges) else 0", "max(merges, default=0)"),
        ("journal/read/test_uniting.py",),
    ),
    Bug(
        "a delivery that was given back overtakes an older one of its patient",
        "engine.journal.claim.claiming:GIVE_BACK",
        Text("THEN 'waiting' ELSE", "THEN 'received' ELSE"),
        ("journal/claim/test_claiming.py",),
    ),
    Bug(
        "a retry overtakes an older delivery of its patient",
        "engine.journal.write.settling:Settling._end",
        Drop("State.WAITING"),
        ("journal/claim/test_claiming.py",),
    ),
    Bug(
        "a claim that was rolled back counts as out and is never delivered",
        "engine.journal.claim.claiming:Claims.withdrawn",
        Drop("self._out[destination].pop(...)"),
        ("journal/claim/test_claiming.py",),
    ),
    Bug(
        "a merge is never answered on an older PostgreSQL",
        "engine.journal.claim.lanes:MEMBERS",
        Text("?) AS members", "?)"),
        ("journal/nodes/test_versions.py",),
    ),
    Bug(
        "a list on PostgreSQL lacks the newest entries, and pages skip some",
        "engine.journal.read.searching:NEWEST_FIRST",
        Text("ORDER BY e.seq DESC", ""),
        ("journal/read/test_both_databases.py",),
    ),
    Bug(
        "a message is acknowledged whose commit never reached the database",
        "engine.journal.write.transactions:Transactions.decided",
        Code("self._turns.was_committed()", "self._turns.was_committed() is not None"),
        ("nodes/test_database.py",),
    ),
    Bug(
        "a node that was declared dead settles deliveries that others have taken over",
        "engine.journal.nodes.turn:NodeTurns.begin",
        Code("state != 'live'", "state is None"),
        ("nodes/test_pauses.py",),
    ),
    Bug(
        "what a killed node had under way is never delivered",
        "engine.journal.nodes.backend:NodeBackend._take_over",
        Value("context.claims.recover(...)", "0"),
        ("nodes/test_takeover.py",),
    ),
    Bug(
        "a node that hangs while it holds the turn stops all others",
        "engine.journal.nodes.lease:NodeLease._renew",
        Drop("end_stalled(...)"),
        ("nodes/test_pauses.py",),
    ),
    Bug(
        "the engine answers before the writes of a killed process are on the disk",
        "engine.journal.file.database:open_to_write",
        Drop("barrier(...)"),
        ("journal/file/test_database.py",),
    ),
    Bug(
        "a power cut loses messages that were acknowledged",
        "engine.database.sqlite:DURABLE",
        Value("('synchronous', 'FULL', 2)", "('synchronous', 'NORMAL', 1)"),
        (
            "journal/file/test_durability.py",
            "journal/file/test_database.py",
            "crash/test_power_cuts.py",
        ),
    ),
    Bug(
        "messages are acknowledged before they are committed",
        "engine.journal.write.turns:LAZY",
        Add("JobKind.RECORD"),
        ("journal/file/test_durability.py",),
    ),
    Bug(
        "a delivery that was prefetched in a failed transaction is forgotten",
        "engine.journal.claim.claiming:Claims.withdrawn",
        Drop("self._demand_before"),
        ("journal/claim/test_supply.py",),
    ),
    Bug(
        "a new delivery is handed out twice after its transaction was undone",
        "engine.journal.claim.claiming:Claims.withdrawn",
        Drop("self._new = {}"),
        ("journal/claim/test_supply.py",),
    ),
    Bug(
        "an older delivery is forgotten once the newer one that it waited for has ended",
        "engine.journal.claim.claiming:Claims.returned",
        Value("destination in self._passed_over", "False"),
        ("journal/claim/test_supply.py",),
    ),
    Bug(
        "a message held for missing demographics is released but never handed out",
        "engine.journal.write.recording:_BatchRows._try_again",
        Drop("self._claims.mark_runnable()"),
        ("journal/claim/test_supply.py",),
    ),
    Bug(
        "a delivery that was given back is handed out to the same worker at once",
        "engine.journal.claim.claiming:Claims.give_back",
        Drop("{name: one for name, one in self._demand.items() if name != destination}"),
        ("journal/claim/test_supply.py",),
    ),
    Bug(
        "a patient's next message waits without need",
        "engine.journal.write.group_commit:GroupCommit.settle",
        Value("self._awaited", "False"),
        ("journal/write/test_group_commit.py",),
    ),
    Bug(
        "outcomes are lost when the engine stops",
        "engine.journal.write.group_commit:GroupCommit.flush",
        Drop("self._settle()"),
        ("journal/write/test_group_commit.py",),
    ),
    Bug(
        "a request that needs no intent leaves no trace",
        "engine.journal.write.settling:Settling.settle",
        Drop("self._write(INTEND, requests)"),
        ("journal/write/test_settling.py",),
    ),
    Bug(
        "a message is acknowledged although the disk was full at its commit",
        "engine.journal.write.transactions:Transactions.carry_out",
        Code(
            "self._in_doubt = results\nself.commit()", "try:\n    self.commit()\nexcept OSError:\n    self.roll_back()"
        ),
        ("journal/file/test_durability.py",),
    ),
    Bug(
        "the writer goes on after a disk error, and a later sync reports success wrongly",
        "engine.journal.write.backend:FileBackend.recovery",
        Drop("is_disk_error(...)"),
        ("journal/file/test_durability.py",),
    ),
    Bug(
        "lanes are remembered after a rollback that the file does not have",
        "engine.journal.write.transactions:Transactions._begin",
        Drop("self._lanes.forget()"),
        ("journal/write/test_settling.py",),
    ),
    Bug(
        "another message under a used control id is answered AA and lost",
        "engine.journal.write.duplicates:_SAME",
        Text("e.fingerprint = ?4 AND e.sha256 = ?5", "(1 OR e.fingerprint = ?4) AND (1 OR e.sha256 = ?5)"),
        ("journal/write/test_recording.py",),
    ),
    Bug(
        "another message under a control id of the same commit is answered AA and lost",
        "engine.journal.write.duplicates:Duplicates.first",
        Drop("one.digest == digest"),
        ("journal/write/test_recording.py",),
    ),
    Bug(
        "a message that was refused once is refused for ever, or answered as if it had been accepted",
        "engine.journal.write.duplicates:_COUNTS",
        Text("d.state NOT IN ('rejected', 'discarded') AND CASE", "CASE"),
        ("journal/write/test_recording.py",),
    ),
    Bug(
        "a message that was kept in shadow is answered AA and lost when it is sent again to the live channel",
        "engine.journal.write.duplicates:_COUNTS",
        Text("THEN ?7 = 1", "THEN true OR ?7 = 1"),
        ("journal/write/test_duplicates.py",),
    ),
    Bug(
        "patients of a load are never looked up, as the live message counts as a duplicate",
        "engine.journal.write.duplicates:FIRST",
        Text("(?8 = 0 OR", "(?8 >= 0 OR"),
        ("journal/write/test_duplicates.py",),
    ),
    Bug(
        "a message filtered by a rule that is gone is answered AA and lost when it is sent again",
        "engine.journal.write.duplicates:FIRST",
        Text("e.reason = ?6)", "(true OR e.reason = ?6))"),
        ("journal/write/test_duplicates.py",),
    ),
    Bug(
        "a live message counts as a duplicate of one in shadow in the same commit",
        "engine.journal.write.duplicates:_is_again",
        Value("bool(...) if SHADOW in first.flags else not (live and LOAD in first.flags)", "True"),
        ("journal/write/test_duplicates.py",),
    ),
    Bug(
        "a message that one of two destinations kept in shadow is applied a second time at the other",
        "engine.journal.write.duplicates:Duplicates.first",
        Drop("entry = replace(...)"),
        ("journal/write/test_duplicates.py",),
    ),
    Bug(
        "a retry of a merge of two different people merges them without a decision",
        "engine.journal.write.operations:OperatorActions._release",
        Value("act == 'release'", "True"),
        ("journal/claim/test_decisions.py",),
    ),
    Bug(
        "a message kept in shadow is reported as delivered but only tried again",
        "engine.journal.write.operations:OperatorActions.replay",
        Drop("self._let_out(...)"),
        ("journal/write/test_duplicates.py",),
    ),
    Bug(
        "delivering what one destination kept delivers again what another one has",
        "engine.journal.write.operations:OperatorActions.replay",
        Value("meant(...)", "True"),
        ("journal/write/test_duplicates.py",),
    ),
    Bug(
        "a later message of one patient overtakes an earlier one",
        "engine.journal.write.recording:BLOCKED",
        Text("seq < CAST(place.value", "seq > CAST(place.value"),
        (
            "journal/write/test_recording.py",
            "journal/claim/test_lanes.py",
        ),
    ),
    Bug(
        "a merge overtakes a delivery under way for one of its patients",
        "engine.journal.write.recording:_BatchRows.queue",
        Code("[(name, lane, seq) for lane in lanes]", "[(name, lane, seq) for lane in lanes[:1]]"),
        (
            "journal/write/test_settling.py",
            "journal/claim/test_places.py",
        ),
    ),
    Bug(
        "the numbers of one patient stay in two lanes after a merge",
        "engine.journal.claim.lanes:Lanes._unite",
        Code("lanes[1:]", "lanes[2:]"),
        ("journal/claim/test_lanes.py",),
    ),
    Bug(
        "two messages of one patient run at the same time after their lanes were joined",
        "engine.journal.claim.lanes:Lanes._join_queue",
        Drop("execute(DEMOTE, ...)"),
        ("journal/claim/test_lanes.py",),
    ),
    Bug(
        "an older event counts as news after a merge",
        "engine.journal.claim.lanes:Lanes._join",
        Drop("execute(MOVE_APPLIED, ...)"),
        ("pipeline/outbound/test_staleness.py",),
    ),
    Bug(
        "a delivery starts while another one of its lane is still out",
        "engine.journal.claim.claiming:Claims.claim",
        Drop("not busy.isdisjoint(...)"),
        ("journal/write/test_settling.py",),
    ),
    Bug(
        "a delivery that was under way at a kill is never delivered",
        "engine.journal.claim.claiming:Claims.recover",
        Drop("self._connection.execute(...).rowcount"),
        (
            "journal/file/test_durability.py",
            "journal/write/test_recording.py",
            "journal/read/test_reading.py",
        ),
    ),
    Bug(
        "a record is written again without a look after a kill in the middle of its write",
        "engine.journal.claim.claiming:Claims._claimed",
        Value("self._open_intent(...) if made else None", "None"),
        (
            "journal/write/test_settling.py",
            "journal/file/test_durability.py",
        ),
    ),
    Bug(
        "a delivery that is left to another node is left for ever",
        "engine.journal.claim.claiming:Claims.claim",
        Value("to_micros(now - PATIENCE)", "0"),
        ("journal/nodes/test_nodes.py",),
    ),
    Bug(
        "a node trusts its memory of a patient for whom another node delivered since",
        "engine.journal.claim.holders:Holders.had",
        Value("holder not in {None, self.holder}", "False"),
        ("journal/nodes/test_nodes.py",),
    ),
    Bug(
        "reading waits for writing",
        "engine.journal.nodes.turn:NodeTurns.apart",
        Drop("{JobKind.LOOK}"),
        ("journal/nodes/test_nodes.py",),
    ),
    Bug(
        "a query that was planned for a small table reads all of a large one",
        "engine.journal.write.settling:STILL_HELD",
        Text("i.value LIMIT 1 OFFSET 0)", "i.value)"),
        ("journal/nodes/test_plans.py",),
    ),
    Bug(
        "words are searched in another character set than that of their channel",
        "engine.journal.read.searching:EntrySearch._is_said",
        Drop("self._charsets.get(...)"),
        ("journal/read/test_texts.py",),
    ),
    Bug(
        "words are indexed in another character set than that of their channel",
        "engine.journal.read.texts:_documents",
        Drop("charsets.get(...)"),
        ("journal/read/test_texts.py",),
    ),
    Bug(
        "an index goes on after the character set of its channel has changed",
        "engine.journal.read.texts:Texts._work",
        Drop("self._charsets() == indexing.charsets"),
        ("journal/read/test_texts.py",),
    ),
    Bug(
        "the next delivery of a lane runs although it also waits for another patient",
        "engine.journal.write.settling:PROMOTE",
        Text("q.seq < delivery.seq", "q.seq < 0"),
        (
            "journal/write/test_settling.py",
            "journal/claim/test_lanes.py",
        ),
    ),
    Bug(
        "a held message lets later ones of its patient overtake it",
        "engine.journal.write.settling:Settling.settle",
        Drop("not settlement.keep_lane"),
        ("journal/write/test_settling.py",),
    ),
    Bug(
        "an entry goes from one final state to another",
        "engine.journal.entry:check_move",
        Unwrap("MOVES"),
        ("journal/test_entry.py",),
    ),
    Bug(
        "retention deletes messages that were never delivered",
        "engine.journal.maintenance.retention:_ages",
        Drop("state not in UNFINISHED"),
        ("journal/maintenance/test_retention.py",),
    ),
    Bug(
        "retention makes a sequence number used twice",
        "engine.journal.maintenance.retention:_old",
        Drop("row['seq'] != newest"),
        ("journal/maintenance/test_retention.py",),
    ),
    Bug(
        "a sealed body can be moved from one patient's message to another's",
        "engine.journal.file.sealing:message_at",
        Code("f'message {seq}'", "'message'"),
        ("journal/file/test_sealing.py",),
    ),
    Bug(
        "two engines write one journal at the same time",
        "engine.journal.file.lock:_locked",
        Swap("LOCK_EX", "LOCK_SH"),
        (
            "journal/file/test_durability.py",
            "journal/file/test_database.py",
            "journal/file/test_mount.py",
        ),
    ),
    Bug(
        "merges counted before a restart are forgotten, and a runaway feed goes on merging",
        "engine.journal.state.pausing:count",
        Value("merges", "[]"),
        (
            "pipeline/inbound/test_merge_limit.py",
            "flow/test_brakes.py",
        ),
    ),
    Bug(
        "rows of the audit trail are changed without a trace",
        "engine.database.chain:chained",
        Drop("before"),
        ("journal/access/test_audit.py",),
    ),
    Bug(
        "rows of the audit trail are taken out without a trace",
        "engine.database.chain:break_between",
        Code("row.seq != before.seq + 1", "row.seq <= before.seq"),
        ("journal/access/test_audit.py",),
    ),
    Bug(
        "the end of the audit trail is cut off without a trace",
        "engine.journal.access.audited:_disagreeing",
        Value("witness.seq > last", "False"),
        (
            "journal/access/test_audit.py",
            "ops/audit/test_anchors.py",
        ),
    ),
    Bug(
        "the audit trail does not say whose data was looked at",
        "engine.journal.access.audit:append",
        Value("[mark for entry in entries for key in _keys(...) for mark in marks(...)]", "[]"),
        (
            "ops/operations",
            "journal/access/test_audit.py",
        ),
    ),
    Bug(
        "one patient's look-ups overtake each other",
        "engine.journal.state.follow_ups:_IS_FIRST",
        Text("IS NOT NULL)", "IS NULL AND o.settled_at IS NULL)"),
        ("journal/state/test_follow_ups.py",),
    ),
    Bug(
        "a look-up is recorded after its delivery's commit, and a kill in between loses it",
        "engine.journal.write.settling:Settling.settle",
        Value("settlements", "[]", of="promise(...)"),
        ("journal/state/test_follow_ups.py",),
    ),
    Bug(
        "notices wait for look-ups of the same patient",
        "engine.journal.state.follow_ups:_IS_FIRST",
        Text("o.kind = ?2", "?2"),
        ("journal/state/test_follow_ups.py",),
    ),
    Bug(
        "one waiting event makes the engine poll for work without a pause",
        "engine.journal.state.follow_ups:NEXT",
        Value("_IS_FIRST", "'true'"),
        ("journal/state/test_follow_ups.py",),
    ),
)
