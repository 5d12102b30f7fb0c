"""The kinds of alerts, and why a destination is paused; the table of reasons has a line for each."""

from enum import StrEnum


class AlertKind(StrEnum):
    """What an alert is about."""

    HELD_LANES = "held-lanes"
    HOLD_STORM = "hold-storm"
    DESTINATION_PAUSED = "destination-paused"
    DESTINATION_FAILURE = "destination-failure"
    DESTINATION_DOWN = "destination-down"
    QUEUE_AGE = "queue-age"
    QUEUE_DEPTH = "queue-depth"
    NO_TRAFFIC = "no-traffic"
    CONNECTIONS_REFUSED = "connections-refused"
    NO_SENDER = "no-sender"
    EVENTS_UNREAD = "events-unread"
    ERROR_RATIO = "error-ratio"
    REFUSAL_RATIO = "refusal-ratio"
    CERTIFICATE_EXPIRY = "certificate-expiry"
    CERTIFICATE_ENDS = "certificate-ends"
    CERTIFICATE_EXPIRED = "certificate-expired"
    DISK_RESERVE = "disk-reserve"
    MERGE_BURST = "merge-burst"
    MERGE_LIMIT = "merge-limit"
    NEW_SOURCE = "new-source"
    UNKNOWN_AUTHORITY = "unknown-authority"
    LANE_CROWDED = "lane-crowded"
    RELOAD_FAILED = "reload-failed"
    JOURNAL_DAMAGED = "journal-damaged"
    JOURNAL_REFUSES = "journal-refuses"
    LOG_GROWS = "log-grows"
    CLOCK_WENT_BACK = "clock-went-back"
    CLOCK_AHEAD = "clock-ahead"
    WEBHOOK_FAILED = "webhook-failed"
    CHANNEL_STOPPED = "channel-stopped"
    LOG_IN_FAILURES = "log-in-failures"
    AUDIT_GAP = "audit-gap"
    NODES_DIFFER = "nodes-differ"
    NODE_LOST = "node-lost"
    TOKEN_FAILURES = "token-failures"  # noqa: S105 - a kind, no secret


class PauseReason(StrEnum):
    """Why a destination takes nothing."""

    HOLD_STORM = "hold-storm"
    RESTORED = "restored"
    BY_OPERATOR = "by-operator"
