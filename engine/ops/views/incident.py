"""Incidents in words: what is wrong, in one plain sentence and one severity, the same wherever an alert is seen."""

import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final

from engine.ops.views.reasons import reason_of
from engine.pipeline.alerts.kind import AlertKind, PauseReason
from engine.pipeline.alerts.rules import IN_FEED_ORDER

# Causes as people say them; of an HTTP status its number is said, and any other code as it is.
CAUSES: Final[Mapping[str, str]] = {
    "connection-refused": "connection refused",
    "not-connected": "its machine cannot be reached",
    "connect-timeout": "no connection in time",
    "connection-lost": "the connection breaks off",
    "timeout": "no answer in time",
    "name-not-resolved": "its name is not known to DNS",
    "tls": "TLS fails",
    "tls-certificate": "its certificate is not valid",
    "client-certificate-refused": "it does not take our certificate",
    "proxy-unreachable": "its proxy does not answer",
    "proxy-authentication": "its proxy refuses our credentials",
    "proxy-forbids": "its proxy does not let us through",
    "proxy-failed": "its proxy does not reach it",
    "header-unusable": "our secret for a header cannot be sent",
    "http-401": "it refuses our credentials (HTTP 401)",
    "http-403": "it forbids what we ask (HTTP 403)",
    "http-429": "it asks for fewer requests (HTTP 429)",
    "token-unavailable": "its token server does not answer",
    "token-refused": "its token server refuses our credentials",
    "private-key-unusable": "our private key cannot be used",
    "signing-certificate-unusable": "our certificate cannot be used",
    "no-credentials": "there is no AWS access key",
    "secret-unreadable": "our secret cannot be read",
    "answer-unreadable": "what answers cannot be read",
    "receiver-error": "it answers that it failed (AE, CE)",
    PauseReason.BY_OPERATOR: "somebody paused it",
    PauseReason.HOLD_STORM: "the same failure held 50 patients",
    PauseReason.RESTORED: "the journal was restored from a backup",
}
# Causes that say that nothing answers; with any other cause something does, and fails.
SILENT: Final = frozenset(
    {"connection-refused", "not-connected", "connect-timeout", "connection-lost", "timeout", "name-not-resolved"}
)
# What a destination of a state does, where the state alone says it.
DOES: Final[Mapping[str, str]] = {"paused": "is paused", "failing": "cannot be used"}
_DOWN: Final = re.compile(r"(?:^|: )(\S+(?: answer)?) for \d+ seconds")
_DISK: Final = re.compile(r"(\d+) MiB free, reserve (\d+) MiB")
_NUMBER: Final = re.compile(r"\d+")


class Severity(StrEnum):
    """What an alert asks for: at once, as messages do not flow; a person's decision; or nothing before morning."""

    URGENT = "urgent"
    TO_DECIDE = "to decide"
    CAN_WAIT = "can wait"


GRAVITY: Final = {severity: place for place, severity in enumerate(Severity)}


def severity_of(kind: str, detail: str = "") -> Severity:
    """Return what an alert of a kind asks for, wherever it is shown or sent.

    What is held is a person's to decide; where a whole feed waits behind it, as its detail says, that is urgent.
    """
    if reason_of(kind).can_wait:
        return Severity.CAN_WAIT
    decided = kind == AlertKind.HELD_LANES and IN_FEED_ORDER not in detail
    return Severity.TO_DECIDE if decided else Severity.URGENT


def cause_in_words(code: str) -> str:
    """Return a cause as people say it; '' for none."""
    status = code.removeprefix("http-")
    return CAUSES.get(code) or (f"HTTP {status}" if status.isdigit() else code)


def destination_sentence(name: str, state: str, reason: str, detail: str = "") -> str:
    """Return what a destination does that takes nothing, and why: `cdis does not answer: connection refused.`"""
    return f"{name} {destination_words(state, reason, detail)}."


def destination_words(state: str, reason: str, detail: str = "") -> str:
    """Return the same without its name: `does not answer: connection refused`.

    `detail`: of a hold storm the code that held; of another pause nothing is said of it.
    """
    does = DOES.get(state) or ("does not answer" if reason in SILENT or not reason else "fails")
    cause = cause_in_words(reason)
    if reason == PauseReason.HOLD_STORM and detail:
        cause = f"{cause} ({detail})"
    return f"{does}: {cause}" if cause else does


def sentence_of(kind: str, subject: str, detail: str) -> str:
    """Return an alert as one plain sentence; of a kind that is not known here, what the table of reasons says."""
    made = _SENTENCES.get(kind)
    return made(subject, detail) if made else reason_of(kind).meaning


def _held(subject: str, detail: str) -> str:
    count = _NUMBER.search(detail)
    many = int(count[0]) if count else 0
    if IN_FEED_ORDER in detail:
        return f"{subject} gets nothing more until somebody decides: {detail}."
    who = "One patient's messages are" if many == 1 else f"Messages of {many or 'some'} patients are"
    return f"{who} held at {subject} and wait for a person."


def _down(subject: str, detail: str) -> str:
    found = _DOWN.search(detail)
    return destination_sentence(subject, "open", found[1] if found and found[1] != "no answer" else "")


def _disk(_subject: str, detail: str) -> str:
    found = _DISK.search(detail)
    if found and int(found[1]) < int(found[2]):
        return f"No messages are accepted: the disk is full ({found[1]} MiB free, {found[2]} MiB are kept back)."
    return f"The disk is nearly full: {detail}."


def _certificate(says: str) -> Callable[[str, str], str]:
    def sentence(subject: str, detail: str) -> str:
        file, _, rest = detail.rpartition(": ")
        return f"The certificate {file.rpartition(' ')[2]} of {subject.partition(' ')[0]} {says.format(rest)}."

    return sentence


def _with(text: str) -> Callable[[str, str], str]:
    return lambda subject, detail: text.format(subject, detail).replace(": .", ".")


_SENTENCES: Final[Mapping[str, Callable[[str, str], str]]] = {
    AlertKind.HELD_LANES: _held,
    AlertKind.HOLD_STORM: lambda name, detail: destination_sentence(name, "paused", PauseReason.HOLD_STORM, detail),
    AlertKind.DESTINATION_PAUSED: lambda name, detail: destination_sentence(name, "paused", detail.rpartition(": ")[2]),
    AlertKind.DESTINATION_FAILURE: lambda name, code: destination_sentence(name, "failing", code.rpartition(": ")[2]),
    AlertKind.DESTINATION_DOWN: _down,
    AlertKind.QUEUE_AGE: _with("Deliveries to {0} are late: {1}."),
    AlertKind.QUEUE_DEPTH: _with("Deliveries to {0} pile up: {1}."),
    AlertKind.NO_TRAFFIC: _with("{0} receives no messages: {1}."),
    AlertKind.CONNECTIONS_REFUSED: _with("{0} refuses senders: {1}."),
    AlertKind.NO_SENDER: _with("No sender is connected to {0}: {1}."),
    AlertKind.EVENTS_UNREAD: _with("The events of {0} are not read from its FHIR server: {1}."),
    AlertKind.ERROR_RATIO: _with("Many deliveries to {0} fail or are held: {1}."),
    AlertKind.REFUSAL_RATIO: _with("{0} refuses many messages: {1}."),
    AlertKind.CERTIFICATE_EXPIRY: _certificate("has {}"),
    AlertKind.CERTIFICATE_ENDS: _certificate("{}"),
    AlertKind.CERTIFICATE_EXPIRED: _certificate("{}: senders that check it cannot connect"),
    AlertKind.DISK_RESERVE: _disk,
    AlertKind.MERGE_BURST: _with("{0} merges more patients than usual: {1}."),
    AlertKind.MERGE_LIMIT: _with("All merges of {0} are held: {1}."),
    AlertKind.NEW_SOURCE: _with("A sender that was never seen before sends to {0}: {1}."),
    AlertKind.UNKNOWN_AUTHORITY: _with("An assigning authority came to {0} that it does not list: {1}."),
    AlertKind.LANE_CROWDED: _with("More than 50 numbers are held to be one patient at {0}: {1}."),
    AlertKind.RELOAD_FAILED: _with("Changed files were refused, and the engine runs on with the old ones."),
    AlertKind.JOURNAL_DAMAGED: _with("The journal's file is damaged: {1}."),
    AlertKind.JOURNAL_REFUSES: _with("The journal's database refuses what the engine writes: {1}."),
    AlertKind.LOG_GROWS: _with("The journal's write-ahead log cannot be moved into its file: {1}."),
    AlertKind.CLOCK_WENT_BACK: _with("The clock of this machine was set back: {1}."),
    AlertKind.CLOCK_AHEAD: _with("The clock is wrong, or the engine was off for long: {1}."),
    AlertKind.WEBHOOK_FAILED: _with("Alerts cannot be sent to the webhook."),
    AlertKind.CHANNEL_STOPPED: _with("{0} is stopped: it accepts nothing."),
    AlertKind.LOG_IN_FAILURES: _with("Many log-ins are refused: {1}."),
    AlertKind.AUDIT_GAP: _with("The end of the audit trail cannot be anchored: {1}."),
    AlertKind.NODES_DIFFER: _with("Nodes run different channels or mappings: {1}."),
    AlertKind.NODE_LOST: _with("A node is gone, and the others do its work: {1}."),
    AlertKind.TOKEN_FAILURES: _with("Many calls come with a token that is not valid: {1}."),
}
