"""From a verdict to a settlement: what delivery says in the words of the journal."""

from datetime import datetime
from typing import Any, Final

import orjson

from engine.deliver.verdict import HttpAttempt, Verdict, VerdictKind
from engine.fhir.plan import Identity, LocationTrail, Plan, UnmappedCode
from engine.journal.entry import (
    Claimed,
    FollowUpRequest,
    KnownIdentity,
    MergeSeen,
    Ownership,
    OwnWrite,
    RequestOutcome,
    Settlement,
    State,
)
from engine.mapping.subject.subject import lane_key

STATES: Final = {
    VerdictKind.DELIVERED: State.DELIVERED,
    VerdictKind.RETRY: State.RECEIVED,
    VerdictKind.HELD: State.HELD,
    VerdictKind.REJECTED: State.REJECTED,
    VerdictKind.FILTERED: State.FILTERED,
}

# Parts of a plan that a kept one lists, as pairs and rows; all others it tells by their names.
LISTED: Final = (Identity, LocationTrail, UnmappedCode)

# Holds that keep their lane whatever `on_held` says: going on would act on a patient nobody is sure of.
ALWAYS_KEEP_LANE: Final = frozenset(
    {
        "ambiguous-identity",
        "identity-conflict",
        "multiple-matches",
        "merge-cycle",
        "merge-conflict",
        "merge-lists-several",
        "would-merge",
        "merged-identifier-reused",
        "merge-limit",
        "unknown-source",
        "unknown-survivor",
        "visit-of-another-patient",
        "visit-reused",
        "resource-of-another-patient",
        "number-of-another-patient",
        "last-number",
        "too-many-visits",
        "overlay-suspected",
        "merged-identifier",
        "source-merged-elsewhere",
        "merge-loop",
        "survivor-missing",
        "survivor-inactive",
        "death-on-merged-record",
        "merge-strategy-unknown",
        "identity-unproven",
        "duplicate-after-create",
        "duplicate-identifier",
        "demographic-match",
        "deleted-at-server",
    }
)


def held(reason: str) -> Verdict:
    """Return the verdict on an entry that is held before anything was asked of the destination."""
    return Verdict(VerdictKind.HELD, reason, unasked=True)


def settlement(
    claimed: Claimed,
    verdict: Verdict,
    plan: Plan | None,
    mapping: str,
    retry_at: datetime | None,
    now: datetime,
    *,
    keep_lane: bool,
    follow_ups: tuple[FollowUpRequest, ...] = (),
) -> Settlement:
    """Return how a delivery ends, or that it is tried again, with all that is to be remembered of it.

    `follow_ups`: what the destination is asked for because of it.
    """
    name = claimed.destination
    return Settlement(
        seq=claimed.seq,
        destination=name,
        state=STATES[verdict.kind],
        at=now,
        reason=verdict.reason,
        notes=verdict.notes,
        retry_at=retry_at,
        outcomes=tuple(_outcome(attempt) for attempt in verdict.attempts),
        plan=_plan_of(verdict, plan),
        mapping=mapping,
        known=tuple(
            KnownIdentity(name, *one.identity, one.logical_id, one.status, one.survivor) for one in verdict.known
        ),
        owned=tuple(Ownership(name, one.resource, one.source, one.slices) for one in verdict.owned),
        merges=tuple(
            MergeSeen(name, lane_key(merge.source), lane_key(merge.survivor), claimed.seq) for merge in verdict.merges
        ),
        inherited=tuple((one.gone, one.survivor) for one in verdict.inherited),
        applied_at=plan.event_at if plan is not None and verdict.applied else None,
        source=plan.source if plan is not None else claimed.source,
        keep_lane=keep_lane or verdict.reason in ALWAYS_KEEP_LANE,
        follow_ups=follow_ups,
    )


def own_writes(claimed: Claimed, verdict: Verdict) -> tuple[OwnWrite, ...]:
    """Return the versions that a delivery has written, as they are to be known when the server tells of them."""
    name, channel = claimed.destination, claimed.channel
    return tuple(OwnWrite(name, one.reference, one.version, channel, one.at) for one in verdict.versions)


def _plan_of(verdict: Verdict, plan: Plan | None) -> bytes:
    """Return the plan to keep: of what ended otherwise than delivered.

    A delivered entry shows it in its requests, and its bytes give it again under the mapping whose hash is kept. One
    that was a dry run (shadow) has its result next to its plan, and one that is held has the records that it is about.
    """
    if plan is None or verdict.kind is VerdictKind.DELIVERED:
        return b""
    written = orjson.dumps(plan, default=_plain)
    if verdict.involved:
        written = written[:-1] + b',"involved":' + orjson.dumps(verdict.involved) + b"}"
    return written[:-1] + b',"rehearsal":' + verdict.dry_run + b"}" if verdict.dry_run else written


def _plain(value: Any) -> Any:
    """Return a part of a plan as JSON has it: by its names, or as the pair or list that it is."""
    return value._asdict() if hasattr(value, "_asdict") and not isinstance(value, LISTED) else tuple(value)


def _outcome(attempt: HttpAttempt) -> RequestOutcome:
    request = None if attempt.journaled else attempt.request
    return RequestOutcome(
        attempt.request.number,
        attempt.status,
        attempt.codes,
        attempt.failure,
        attempt.milliseconds,
        attempt.body,
        request,
    )
