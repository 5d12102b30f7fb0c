"""The bugs: what each would mean for a patient or a hospital, the text it stands in, and the tests that must fail.

Each is small, plausible, and in a room where a mistake harms somebody. `was` stands exactly once in its file.
"""

from typing import Final, NamedTuple


class Bug(NamedTuple):
    """One bug: in `file` the text `was` becomes `now`; at least one of `tests` (paths below tests/) must fail."""

    harm: str
    file: str
    was: str
    now: str
    tests: tuple[str, ...]


JOURNAL: Final = (
    Bug(
        "the engine answers before what a killed process wrote is on the disk",
        "journal/file/database.py",
        "        barrier(connection)\n    except sqlite3.Error",
        "    except sqlite3.Error",
        ("journal/file/test_database.py",),
    ),
    Bug(
        "a power cut takes what was acknowledged",
        "sqlite.py",
        '("synchronous", "FULL", 2)',
        '("synchronous", "NORMAL", 1)',
        ("journal/file/test_durability.py", "journal/file/test_database.py"),
    ),
    Bug(
        "messages are acknowledged before they are committed",
        "journal/write/transactions.py",
        "_LAZY: Final = frozenset({Kind.LOOK, Kind.CLAIM})",
        "_LAZY: Final = frozenset({Kind.LOOK, Kind.CLAIM, Kind.RECORD})",
        ("journal/file/test_durability.py",),
    ),
    Bug(
        "a message is acknowledged whose commit found the disk full",
        "journal/write/transactions.py",
        "            if not kinds <= _LAZY:\n                self.commit()\n",
        "            if not kinds <= _LAZY:\n                try:\n                    self.commit()\n"
        "                except OSError:\n                    self.roll_back()\n",
        ("journal/file/test_durability.py",),
    ),
    Bug(
        "after a disk error the writer goes on, and a later sync lies",
        "journal/write/writer.py",
        "elif is_disk_error(error) or isinstance(error, JournalFailedError):",
        "elif isinstance(error, JournalFailedError):",
        ("journal/file/test_durability.py",),
    ),
    Bug(
        "after a rollback lanes are remembered that the file does not have",
        "journal/write/transactions.py",
        "                self._lanes.forget()\n",
        "",
        ("journal/write/test_settling.py",),
    ),
    Bug(
        "other bytes under a used control id are answered AA and lost",
        "journal/write/recording.py",
        "e.fingerprint = ? AND e.sha256 = ?",
        "(1 OR e.fingerprint = ?) AND (1 OR e.sha256 = ?)",
        ("journal/write/test_recording.py",),
    ),
    Bug(
        "other bytes under a control id of the same commit are answered AA and lost",
        "journal/write/recording.py",
        "if other == digest and recorded.state is not State.REJECTED:",
        "if recorded.state is not State.REJECTED:",
        ("journal/write/test_recording.py",),
    ),
    Bug(
        "what was refused once is refused for ever, or answered as if it had been taken",
        "journal/write/recording.py",
        "AND e.state NOT IN ('rejected', 'discarded')\n",
        "",
        ("journal/write/test_recording.py",),
    ),
    Bug(
        "a later message of one patient overtakes an earlier one",
        "journal/write/recording.py",
        "CASE WHEN EXISTS (SELECT 1 FROM queue WHERE destination = ?2 AND lane = ?4 AND seq < ?1)",
        "CASE WHEN EXISTS (SELECT 1 FROM queue WHERE destination = ?2 AND lane = ?4 AND seq > ?1)",
        ("journal/write/test_recording.py", "journal/claim/test_lanes.py"),
    ),
    Bug(
        "a merge overtakes what is under way for one of its patients",
        "journal/write/recording.py",
        "WHERE q.destination = ?2 AND q.lane = mine.value AND q.seq < ?1)",
        "WHERE q.destination = ?2 AND q.lane = mine.value AND q.seq < 0)",
        ("journal/write/test_settling.py",),
    ),
    Bug(
        "the numbers of one patient stay in two lanes after a merge",
        "journal/claim/lanes.py",
        "self._join(lanes[0], frozenset(lanes[1:]))",
        "self._join(lanes[0], frozenset(lanes[2:]))",
        ("journal/claim/test_lanes.py",),
    ),
    Bug(
        "two messages of one patient run at a time after their lanes were joined",
        "journal/claim/lanes.py",
        "            execute(DEMOTE, (destination, destination, into, destination, into))\n",
        "            pass\n",
        ("journal/claim/test_lanes.py",),
    ),
    Bug(
        "after a merge an older event passes for news",
        "journal/claim/lanes.py",
        "        execute(MOVE_APPLIED, (into, lanes))\n",
        "",
        ("pipeline/outbound/test_staleness.py",),
    ),
    Bug(
        "a delivery starts beside another one of its lane that is still out",
        "journal/claim/claiming.py",
        "if out and (row[0] in out or not busy.isdisjoint(lanes)):",
        "if out and row[0] in out:",
        ("journal/write/test_settling.py",),
    ),
    Bug(
        "what was under way at a kill is never delivered",
        "journal/claim/claiming.py",
        "            self._connection.execute(GIVE_BACK, (destination,))\n",
        "            pass\n",
        ("journal/file/test_durability.py", "journal/write/test_recording.py", "journal/read/test_reading.py"),
    ),
    Bug(
        "after a kill in the middle of a write it is not read before it is written again",
        "journal/claim/claiming.py",
        "intent = self._open_intent(seq, destination) if made else None",
        "intent = None",
        ("journal/write/test_settling.py", "journal/file/test_durability.py"),
    ),
    Bug(
        "the next of a lane runs although it waits for another patient, too",
        "journal/write/settling.py",
        "  WHERE q.destination = ?1 AND q.lane = mine.value AND q.seq < delivery.seq)",
        "  WHERE q.destination = ?1 AND q.lane = mine.value AND q.seq < 0)",
        ("journal/write/test_settling.py", "journal/claim/test_lanes.py"),
    ),
    Bug(
        "a held message lets the patient's later ones pass",
        "journal/write/settling.py",
        "(settlement.state is State.HELD and not settlement.keep_lane)",
        "settlement.state is State.HELD",
        ("journal/write/test_settling.py",),
    ),
    Bug(
        "an entry goes from one end to another",
        "journal/entry.py",
        "    if after not in MOVES[before]:",
        "    if after not in MOVES:",
        ("journal/test_entry.py",),
    ),
    Bug(
        "retention takes messages that were never delivered",
        "journal/care/retention.py",
        " for state, kept in by_state.items() if state not in UNFINISHED}",
        " for state, kept in by_state.items()}",
        ("journal/care/test_retention.py",),
    ),
    Bug(
        "retention gives a number out twice",
        "journal/care/retention.py",
        'row["seq"] != newest and ',
        "",
        ("journal/care/test_retention.py",),
    ),
    Bug(
        "a sealed body may be moved from one patient's message to another's",
        "journal/file/sealing.py",
        '    return f"message {seq}"\n',
        '    return "message"\n',
        ("journal/file/test_sealing.py",),
    ),
    Bug(
        "two engines write one journal",
        "journal/file/lock.py",
        "fcntl.LOCK_EX | fcntl.LOCK_NB",
        "fcntl.LOCK_SH | fcntl.LOCK_NB",
        ("journal/file/test_durability.py", "journal/file/test_database.py", "journal/file/test_mount.py"),
    ),
    Bug(
        "merges counted before a restart are forgotten, and a runaway feed goes on",
        "journal/state/merging.py",
        "    for number, one in enumerate(merges):",
        "    for number, one in enumerate(list(merges)[:0]):",
        ("pipeline/inbound/test_merge_limit.py", "flow/test_brakes.py"),
    ),
)

AUDIT: Final = (
    Bug(
        "rows of the audit trail are changed without a trace",
        "journal/access/audit.py",
        "return sha256(before + canonical(",
        "return sha256(canonical(",
        ("journal/access/test_audit.py",),
    ),
    Bug(
        "rows of the audit trail are taken out without a trace",
        "journal/access/audited.py",
        "    if seq != last + 1:",
        "    if seq <= last:",
        ("journal/access/test_audit.py",),
    ),
    Bug(
        "the end of the audit trail is cut off without a trace",
        "journal/access/audited.py",
        "        if witness.seq > last:",
        "        if witness.seq > last + 1_000_000:",
        ("journal/access/test_audit.py", "ops/audit/test_anchors.py"),
    ),
    Bug(
        "an act is recorded only once it is done",
        "ops/operations/runner.py",
        "        row = await self._trail.ask(actor, operation.name, given, operation.marks())\n        try:\n"
        "            if operation.permission is Permission.OPERATE:\n"
        '                fault.point("F19")\n'
        "            return await operation.parse(given, written=written).run(self._engine, actor)\n",
        "        row = 0\n        try:\n"
        "            if operation.permission is Permission.OPERATE:\n"
        '                fault.point("F19")\n'
        "            done = await operation.parse(given, written=written).run(self._engine, actor)\n"
        "            await self._trail.ask(actor, operation.name, given, operation.marks())\n"
        "            return done\n",
        ("ops/operations",),
    ),
    Bug(
        "whoever is refused leaves no trace",
        "ops/operations/runner.py",
        "            await self._trail.refuse(actor, operation.name, given, operation.marks(), error)\n",
        "",
        ("ops/operations",),
    ),
    Bug(
        "what a patient's data was looked at for is not in the trail",
        "journal/access/audit.py",
        "        patients += [mark for entry in entries for key in _keys(connection, entry) for mark in marks(key)]\n",
        "        patients += []\n",
        ("ops/operations", "journal/access/test_audit.py"),
    ),
)

INTAKE: Final = (
    Bug(
        "what could not be stored is answered AA",
        "pipeline/intake.py",
        "        code = mode_of(header, feed.channel.acknowledgement_mode).acknowledgements((finding,)).at_commit\n",
        "        code = mode_of(header, feed.channel.acknowledgement_mode).acknowledgements(()).at_commit\n",
        ("pipeline/test_intake.py",),
    ),
    Bug(
        "a message that comes twice is answered otherwise the second time",
        "pipeline/intake.py",
        "        answer = ack if taken_since else recorded.acknowledgement\n",
        "        answer = ack\n",
        ("pipeline/test_intake.py",),
    ),
    Bug(
        "an engine of ours acknowledges acknowledgements for ever",
        "pipeline/inbound/judgement.py",
        "        return self.reason == ACKNOWLEDGEMENT\n",
        "        return False\n",
        ("pipeline/test_intake.py",),
    ),
    Bug(
        "the merge limit lets one merge too many through",
        "pipeline/inbound/merge_limit.py",
        "if near >= self._merges or",
        "if near > self._merges or",
        ("pipeline/inbound/test_merge_limit.py",),
    ),
    Bug(
        "merges go on although a person has not let them",
        "pipeline/inbound/merge_limit.py",
        "        if channel.channel in self.held:\n            return False\n",
        "",
        ("pipeline/inbound/test_merge_limit.py",),
    ),
)

DELIVER: Final = (
    Bug(
        "a write is sent before it is in the journal",
        "deliver/wire/exchange.py",
        "        await self._intend(request)\n        try:\n            answer",
        "        try:\n            answer",
        ("deliver/patient/test_upsert.py", "deliver/merge/test_merge.py"),
    ),
    Bug(
        "an OperationOutcome of errors in a 200 passes for success",
        "deliver/wire/exchange.py",
        "        if failure is Failure.NONE and outcome.is_fault(answer.json):",
        "        if False and outcome.is_fault(answer.json):",
        ("deliver/patient/test_upsert.py", "deliver/merge/test_merge.py", "deliver/wire/test_client.py"),
    ),
    Bug(
        "another system's change of the patient is overwritten",
        "deliver/patient/upsert.py",
        "result.body, patient.if_match, spoken)",
        "result.body, (), spoken)",
        ("deliver/patient/test_upsert.py",),
    ),
    Bug(
        "'unchanged' is said of a record that nobody has read",
        "deliver/patient/upsert.py",
        '        if not patient.fresh:\n            return "", await',
        '        if not patient:\n            return "", await',
        ("deliver/patient/test_upsert.py",),
    ),
    Bug(
        "a patient deleted at the source comes back with any message",
        "deliver/patient/upsert.py",
        "    if interaction.reactivate:\n",
        "    if interaction:\n",
        ("deliver/patient/test_upsert.py",),
    ),
    Bug(
        "one of two charts is chosen",
        "deliver/patient/resolve.py",
        "    if len(candidates) == 1:\n        return candidates[0]",
        "    if candidates:\n        return candidates[0]",
        ("deliver/patient/test_upsert.py",),
    ),
    Bug(
        "another registration's chart is taken for this one's",
        "deliver/patient/resolve.py",
        "    return any(number.system == preferred.system and number.value != preferred.value for number in numbers)",
        "    return False",
        ("deliver/patient/test_upsert.py",),
    ),
    Bug(
        "a merge that was sent is believed, not seen",
        "deliver/merge/union.py",
        '        raise unclear("merge-unverified")\n',
        "        pass\n",
        ("deliver/merge/test_merge.py",),
    ),
    Bug(
        "a patient is merged into itself",
        "deliver/merge/merge.py",
        '        raise RejectedDeliveryError("self-merge")\n',
        '        return "already-merged"\n',
        ("deliver/merge/test_merge.py",),
    ),
    Bug(
        "an inverse merge is carried out or passed over",
        "deliver/merge/merge.py",
        '            raise HeldDeliveryError("merge-cycle")\n',
        '            return "already-merged"\n',
        ("deliver/merge/test_merge.py",),
    ),
    Bug(
        "two people are merged whose names and birth dates differ",
        "deliver/merge/merge.py",
        '        if exchange.channel.merge_conflict == "hold":\n',
        '        if exchange.channel.merge_conflict == "never":\n',
        ("deliver/merge/test_merge.py",),
    ),
    Bug(
        "a chart that was merged elsewhere is merged once more",
        "deliver/merge/merge.py",
        "    if _retired(interaction, source):\n"
        '        raise HeldDeliveryError("source-merged-elsewhere")\n    check_found',
        "    check_found",
        ("deliver/merge/test_merge.py",),
    ),
    Bug(
        "a number given out again overwrites the chart that had it before",
        "deliver/patient/overlay.py",
        "    if not (found.redirected or out_of_use(found.patient, (*record.identities, *named))):",
        "    if not found.redirected:",
        ("deliver/patient/test_overlay.py",),
    ),
    Bug(
        "a search of a minute ago is believed against what was written since",
        "deliver/patient/unseen.py",
        "    for one in known.values():\n        if _carried",
        "    for one in ():\n        if _carried",
        ("deliver/patient/test_unseen.py",),
    ),
    Bug(
        "the journal's knowledge of merges ends after one",
        "deliver/patient/absorbed.py",
        "        following = _merged_here(exchange, following) or await exchange.memory.survivor(following)\n",
        '        following = ""\n',
        ("deliver/patient/test_absorbed.py",),
    ),
    Bug(
        "the source of a merge comes before the survivor, and a crash leaves nobody",
        "deliver/merge/union.py",
        '    await revise(exchange, survivor, replaces)\n    fault.point("F18")\n',
        "    await revise(exchange, source, replaced)\n    await revise(exchange, survivor, replaces)\n",
        ("deliver/merge/test_merge.py",),
    ),
    Bug(
        "a change of number makes two patients one",
        "deliver/merge/rename.py",
        '        raise HeldDeliveryError("would-merge")\n    if target.redirected',
        "        return source\n    if target.redirected",
        ("deliver/merge/test_rename.py",),
    ),
    Bug(
        "a visit goes to another patient",
        "deliver/resources/found.py",
        '    raise HeldDeliveryError("visit-of-another-patient" if',
        '    return None and HeldDeliveryError("visit-of-another-patient" if',
        ("deliver/resources/test_visits.py",),
    ),
    Bug(
        "a second patient is left behind after a race of two creates",
        "deliver/patient/create.py",
        "    if others:\n        exchange.server.cache.drop",
        "    if False:\n        exchange.server.cache.drop",
        ("deliver/patient/test_upsert.py",),
    ),
    Bug(
        "somebody with the same name and birth date gets this patient's number",
        "deliver/patient/create.py",
        " or any(item.system in systems for item in numbers):",
        ":",
        ("deliver/patient/test_upsert.py",),
    ),
    Bug(
        "a write without an answer is repeated without a look",
        "deliver/wire/failure.py",
        "    500: Failure.AMBIGUOUS,",
        "    500: Failure.PERMANENT,",
        ("deliver",),
    ),
    Bug(
        "a server that ignores If-Match passes for one that honours it",
        "deliver/wire/revise.py",
        "        honoured = answer.status in _STALE\n",
        "        honoured = answer.status > 0\n",
        ("deliver/wire/test_abilities.py", "deliver/patient/test_upsert.py"),
    ),
)

IDENTITY: Final = (
    Bug(
        "all zeros are somebody's number",
        "mapping/language/identifier.py",
        'if not bare.strip("0") or (len(bare) >= 3 and not bare.strip("9")):',
        'if len(bare) >= 3 and not bare.strip("9"):',
        ("mapping/subject/test_identify.py", "mapping/authoring/test_shipped.py"),
    ),
    Bug(
        "a dummy social security number joins thousands of charts",
        "mapping/language/identifier.py",
        "if not value or type_ in self.rules.not_identity or self.expired(cells, today):",
        "if not value or self.expired(cells, today):",
        ("mapping/subject/test_identify.py", "mapping/authoring/test_shipped.py"),
    ),
    Bug(
        "a number that has run out still finds its chart",
        "mapping/language/identifier.py",
        "        return until < today[: len(until)]\n",
        "        return False\n",
        ("mapping/subject/test_identify.py", "mapping/authoring/test_shipped.py"),
    ),
    Bug(
        "merges are made on a channel that does not allow them",
        "mapping/subject/identify.py",
        "        if not self._setting.allow_merge:\n",
        "        if self._setting is None:\n",
        ("mapping/subject/test_identify.py", "mapping/authoring/test_shipped.py"),
    ),
    Bug(
        "a self-merge passes the door",
        "mapping/subject/merge.py",
        "    if found.source.identity == found.target.identity:\n",
        "    if found.source is found.target:\n",
        ("mapping/subject/test_identify.py", "mapping/authoring/test_shipped.py"),
    ),
    Bug(
        "numbers of an authority that nobody has named are merged",
        "mapping/subject/merge.py",
        "    if unnamed:\n",
        "    if not unnamed and len(unnamed):\n",
        ("mapping/subject/test_identify.py", "mapping/authoring/test_shipped.py"),
    ),
    Bug(
        "an unlisted authority's numbers pass although the channel refuses them",
        "mapping/subject/identities.py",
        "        if not self._setting.refuse_unknown_authority:\n",
        "        if self._setting:\n",
        ("mapping/subject/test_identify.py", "mapping/authoring/test_shipped.py"),
    ),
)

OAUTH: Final = (
    Bug(
        "a client uses another one's refresh token",
        "interchange/oauth/vault.py",
        " or token.client != client:",
        ":",
        ("interchange/test_oauth.py",),
    ),
    Bug(
        "a copied refresh token goes on unnoticed",
        "interchange/oauth/vault.py",
        "                self.end(connection, token.pair)\n",
        "                pass\n",
        ("interchange/test_sign_in.py",),
    ),
    Bug(
        "a revoked token goes on opening the service",
        "interchange/oauth/vault.py",
        "            if known is None or known.revoked:\n",
        "            if known is None:\n",
        ("interchange/test_oauth.py",),
    ),
    Bug(
        "an expired token goes on opening the service",
        "interchange/http/door.py",
        "    if service.vault.seconds_left(found) <= 0:\n",
        "    if service.vault.seconds_left(found) <= -1_000_000_000:\n",
        ("interchange/test_access.py", "interchange/test_oauth.py"),
    ),
    Bug(
        "a refresh token opens the service",
        "interchange/http/door.py",
        " or found.kind != TokenKind.ACCESS:",
        ":",
        ("interchange/test_access.py", "interchange/test_oauth.py"),
    ),
    Bug(
        "an authorization code is good twice",
        "interchange/oauth/code.py",
        "            connection.execute(USE, (digest,))\n",
        "",
        ("interchange/test_sign_in.py",),
    ),
    Bug(
        "a stolen code is exchanged without its verifier",
        "interchange/oauth/code.py",
        "        return not given.challenge and not asked.verifier\n",
        "        return True\n",
        ("interchange/test_sign_in.py",),
    ),
    Bug(
        "a code goes to another address than the one allowed",
        "interchange/oauth/code.py",
        "    if given.redirect_uri != asked.redirect_uri:\n        return False\n",
        "",
        ("interchange/test_sign_in.py",),
    ),
    Bug(
        "an assertion made for another server is taken",
        "interchange/oauth/assertion.py",
        '    if claims["aud"] not in (expected.audience, [expected.audience]):\n',
        '    if not claims["aud"]:\n',
        ("interchange/test_assertion.py",),
    ),
    Bug(
        "an assertion is good twice",
        "interchange/oauth/assertion.py",
        "return bool(connection.execute(SPEND, (digest, until)).rowcount == 1)",
        "return bool(connection.execute(SPEND, (digest, until)).rowcount >= -1)",
        ("interchange/test_assertion.py",),
    ),
    Bug(
        "who may read may write",
        "interchange/oauth/scope.py",
        "    return letters(access) <= frozenset().union(*held)",
        "    return any(held)",
        ("interchange/test_roles.py", "interchange/test_walk.py"),
    ),
    Bug(
        "a client is granted more than it is registered for",
        "interchange/oauth/scope.py",
        "asked.access <= given.access and given.type in _including(asked.type)",
        "given.type in _including(asked.type)",
        ("interchange/test_oauth.py",),
    ),
    Bug(
        "a nurse prescribes",
        "interchange/oauth/role.py",
        "    Action.PRESCRIBE: CLINICIANS - {Role.NURSE},",
        "    Action.PRESCRIBE: CLINICIANS,",
        ("interchange/test_roles.py",),
    ),
)

TENANTS: Final = (
    Bug(
        "one hospital reads another one's patients",
        "interchange/store/transaction.py",
        "change FROM resource WHERE tenant=? AND type=? AND id=?",
        "change FROM resource WHERE tenant>=? * 0 AND type=? AND id=?",
        ("interchange/test_access.py", "interchange/test_walk.py", "interchange/test_store.py"),
    ),
    Bug(
        "a search finds another hospital's patients",
        "interchange/store/query.py",
        'LIVE: Final = "tenant = ? AND type = ? AND survivor IS NULL"',
        'LIVE: Final = "tenant >= ? * 0 AND type = ? AND survivor IS NULL"',
        ("interchange/test_search.py", "interchange/test_walk.py", "interchange/test_access.py"),
    ),
    Bug(
        "another hospital's record takes a number away",
        "interchange/store/transaction.py",
        '"SELECT DISTINCT key FROM identifier_index WHERE tenant=? AND parameter=?',
        '"SELECT DISTINCT key FROM identifier_index WHERE tenant>=? * 0 AND parameter=?',
        ("interchange/test_create.py", "interchange/test_access.py"),
    ),
    Bug(
        "two patients carry one medical record number",
        "interchange/patient/write.py",
        "        if any(key != own_key for key in holders):\n",
        "        if False and any(key != own_key for key in holders):\n",
        ("interchange/test_create.py", "interchange/test_update.py"),
    ),
    Bug(
        "a conditional create takes one of several",
        "interchange/resource/precondition.py",
        "    if found.total > 1:\n",
        "    if found.total > 1_000_000:\n",
        ("interchange/test_create.py",),
    ),
    Bug(
        "a late update overwrites a newer one",
        "interchange/resource/precondition.py",
        "        if self.match is not None and not _among(self.match, stored):",
        "        if self.match is not None and stored is None:",
        ("interchange/test_update.py",),
    ),
    Bug(
        "a refused write of one request is kept with the others of its commit",
        "interchange/store/writer.py",
        '            self._connection.execute("ROLLBACK TO job")\n',
        "",
        ("interchange/test_store.py", "interchange/test_fault_points.py"),
    ),
    Bug(
        "after a merge the old number finds nobody",
        "interchange/store/transaction.py",
        "        self.connection.execute(MOVE_IDENTIFIERS, (survivor.key, stored.key))\n",
        "",
        ("interchange/test_merge.py",),
    ),
    Bug(
        "after a merge a result still hangs on the gone patient",
        "interchange/store/transaction.py",
        "        self.connection.execute(REDIRECT, (new, self.tenant, old, *but))\n",
        "",
        ("interchange/test_merge_references.py", "interchange/test_merge.py"),
    ),
    Bug(
        "a merged-away patient is written to as if it lived",
        "interchange/patient/update.py",
        "    if stored.survivor is not None:\n",
        "    if stored.survivor is not None and stored.version < 0:\n",
        ("interchange/test_merge.py", "interchange/test_update.py"),
    ),
)

SERVICE: Final = (
    Bug(
        "a read is answered that a kill leaves out of the access log",
        "interchange/audit/recorder.py",
        "        await self._begin(access)\n",
        "        self._begin(access)\n",
        ("interchange/test_fault_points.py",),
    ),
    Bug(
        "what a write did is recorded in another commit than its own",
        "interchange/store/store.py",
        "                pending.keep(connection, transaction.touched)\n",
        "                pass\n",
        ("interchange/test_fault_points.py",),
    ),
    Bug(
        "a write is answered before it is on the disk",
        "interchange/store/writer.py",
        '            fault.point("F28")\n',
        '            _tell(batch)\n            fault.point("F28")\n',
        ("interchange/test_fault_points.py",),
    ),
    Bug(
        "a row of the access log is changed unseen",
        "interchange/store/access.py",
        "    return sha256(before + orjson.dumps((seq, *row))).digest()",
        "    return sha256(before + orjson.dumps((seq, *row[:7]))).digest()",
        ("interchange/test_access_log.py",),
    ),
    Bug(
        "an auditor reads another hospital's log",
        "interchange/audit/reading.py",
        '    own: Test = ("tenant=?" if patient is None else "seq=found AND tenant=?", (tenant,))',
        '    own: Test = ("tenant<>?" if patient is None else "seq=found AND tenant<>?", ("",))',
        ("interchange/test_access_search.py",),
    ),
    Bug(
        "a search leaves a row of the access log out",
        "interchange/audit/reading.py",
        "\"login=? AND login<>'' AND client<>?\"",
        "\"login=? AND login<>'' AND client<>? AND client=login\"",
        ("interchange/test_access_search.py",),
    ),
    Bug(
        "a Bundle deletes what it has just written",
        "interchange/bundles/plan.py",
        '{"DELETE": 0, "POST": 1, "PUT": 2, "PATCH": 2}',
        '{"DELETE": 2, "POST": 1, "PUT": 0, "PATCH": 0}',
        ("interchange/test_bundle_model.py",),
    ),
    Bug(
        "a transaction that is refused keeps what it wrote so far",
        "interchange/bundles/transaction.py",
        "        answer = driven(carried_out(replace(inner, new_id=partial(str, target)), meant))\n",
        "        try:\n"
        "            answer = driven(carried_out(replace(inner, new_id=partial(str, target)), meant))\n"
        "        except RefusedError:\n"
        '            answer = Answer(200, b"", (("location", f"/{target}"),))\n',
        ("interchange/test_bundle_model.py", "interchange/test_bundles.py"),
    ),
    Bug(
        "an entry refers to a number that nobody has",
        "interchange/bundles/resolve.py",
        '        made["reference"] = targets.get(reference) or _one(service, transaction, sender, reference)\n',
        '        made["reference"] = _one(service, transaction, sender, reference)\n',
        ("interchange/test_bundle_references.py", "interchange/test_bundles.py"),
    ),
    Bug(
        "a search finds a value that the patient no longer has",
        "interchange/store/index.py",
        "        connection.executemany(drop, [(*dropped, *row) for row in gone])\n",
        "        pass\n",
        ("interchange/test_fault_points.py", "interchange/test_update.py"),
    ),
    Bug(
        "one patient's token reads another's former versions",
        "interchange/resource/context.py",
        "        return _free if directory else _kept\n",
        '        return _free if directory or code == "vread" else _kept\n',
        ("interchange/test_context_walk.py",),
    ),
    Bug(
        "one patient's token writes into another's record by a Bundle",
        "interchange/bundles/plan.py",
        "        request = confine(service, plan.request, plan.interaction, needed(plan.interaction))\n",
        "        request = plan.request\n",
        ("interchange/test_context_walk.py",),
    ),
    Bug(
        "a role that may not, may by a Bundle",
        "interchange/bundles/plan.py",
        "        authorise(service, sender.principal, interaction)\n",
        "",
        ("interchange/test_walk.py",),
    ),
    Bug(
        "anybody of the tenant reads what was fetched for another patient's app",
        "interchange/jobs/handle.py",
        "            confine_to(service, request.principal, kept.job.patient, one, needed(one))\n",
        "",
        ("interchange/test_job_rights.py",),
    ),
    Bug(
        "what a cancelled job fetched is kept all the same",
        "interchange/jobs/runner.py",
        "State.DONE, transaction.at, result.body):\n                return False\n",
        "State.DONE, transaction.at, result.body):\n                pass\n",
        ("interchange/test_jobs.py", "interchange/test_job_model.py"),
    ),
    Bug(
        "a job that was promised is forgotten when the service is killed",
        "interchange/jobs/runner.py",
        "                await self._take_over()\n",
        "",
        ("interchange/test_job_kills.py", "interchange/test_job_model.py"),
    ),
    Bug(
        "a job that ends the process does so at every start, for ever",
        "interchange/store/job.py",
        " AND ended_ms IS NULL AND crashes>=? RETURNING number",
        " AND ended_ms IS NULL AND crashes<0 AND crashes>=? RETURNING number",
        ("interchange/test_job_kills.py", "interchange/test_job_model.py"),
    ),
    Bug(
        "a former version is counted that is not kept",
        "interchange/store/history.py",
        "    total = present.version - first[0] if first else 0\n",
        "    total = present.version - 1 if first else 0\n",
        ("interchange/test_history.py",),
    ),
)

PAGES: Final = (
    Bug(
        "a page of somebody else replays messages in an operator's name",
        "ops/web/gatekeeper.py",
        '        if not call.cookie or not self.desk.access.keys.is_csrf(call.cookie, call.form.get(FIELD, "")):\n',
        "        if not call.cookie:\n",
        ("ops/web/test_http.py",),
    ),
    Bug(
        "a form from elsewhere is taken",
        "ops/web/origin.py",
        '    if site is not None and site != "same-origin":\n',
        '    if site is not None and site == "never":\n',
        ("ops/web/test_origin.py",),
    ),
    Bug(
        "a viewer opens pages of administrators",
        "ops/web/gatekeeper.py",
        "        if isinstance(self.route.needs, Permission) and not call.may(self.route.needs):\n",
        "        if isinstance(self.route.needs, Permission) and call.actor is None:\n",
        ("ops/web/test_http.py", "ops/web/test_flows.py", "ops/web/test_hostile.py"),
    ),
    Bug(
        "a session of somebody who left the desk goes on for days",
        "ops/access/access.py",
        "        if row is None or now - row.seen_at > IDLE or now - row.began_at > ABSOLUTE:\n",
        "        if row is None or now - row.began_at > ABSOLUTE:\n",
        ("ops/access/test_access.py",),
    ),
    Bug(
        "an API token goes on after it was taken back",
        "ops/access/attempts.py",
        "        if row is None or row.revoked_at is not None or now >= row.expires_at:\n",
        "        if row is None or now >= row.expires_at:\n",
        ("ops/access/test_access.py", "ops/access/test_administration.py"),
    ),
    Bug(
        "a one-time code is good twice",
        "ops/access/entering.py",
        "    return code_is_good and (not step or accounts.use_step(connection, account.name, step))",
        "    return code_is_good",
        ("ops/access/test_access.py", "ops/access/test_totp.py"),
    ),
    Bug(
        "a second factor is not asked for",
        "ops/access/entering.py",
        "        code_is_good, step = found is not None, found or 0\n",
        "        code_is_good, step = True, found or 0\n",
        ("ops/access/test_access.py",),
    ),
    Bug(
        "old sessions go on after a change of password",
        "ops/access/entering.py",
        "        sessions.end_all(connection, account.name)\n",
        "",
        ("ops/access/test_access.py",),
    ),
    Bug(
        "passwords are tried without end",
        "ops/access/throttle.py",
        "    if over < 0:\n",
        "    if over < 1_000_000:\n",
        ("ops/access/test_throttle.py",),
    ),
    Bug(
        "a token of one channel reads another one's messages",
        "ops/operations/runner.py",
        ' and (not operation.of_channel or given.get("channel") not in actor.channels):\n',
        " and not operation.of_channel:\n",
        ("ops/operations", "ops/web/test_api.py"),
    ),
    Bug(
        "patients' messages are discarded without the password",
        "ops/operations/runner.py",
        "    if not actor.confirmed and (grave or operation.confirm is Confirm.STEP_UP):\n",
        "    if not actor.confirmed and grave:\n",
        ("ops/operations", "ops/web/test_flows.py"),
    ),
    Bug(
        "an operation for everybody shows a field that nobody marked",
        "ops/operations/operation.py",
        "cls.permission not in AUDITED and (hidden",
        "cls.permission is Permission.SEND and (hidden",
        ("ops/operations/test_operation.py",),
    ),
    Bug(
        "a field that is added to an answer is shown to everybody",
        "ops/views/answer.py",
        "        cls.facts = inherited | own if facts else inherited - own\n",
        "        cls.facts = inherited | own\n",
        ("ops/operations/test_operation.py",),
    ),
    Bug(
        "the audit trail keeps what a field is not marked for",
        "ops/audit/trail.py",
        "    if mark not in {Audited.VALUE, Audited.ENTRIES}:\n",
        "    if mark is Audited.PATIENT:\n",
        ("ops/operations",),
    ),
)

BUGS: Final = (*JOURNAL, *AUDIT, *INTAKE, *DELIVER, *IDENTITY, *OAUTH, *TENANTS, *SERVICE, *PAGES)
