"""Phrases for people: what a page and a terminal say for a word of the code.

The one table of them. JSON, CSV and the API keep the words of the code, as programs read them.
"""

from collections.abc import Mapping
from typing import Final

Phrases = Mapping[str, str]

# An entry, a delivery, or the verdict of a dry run.
MESSAGE: Final[Phrases] = {
    "received": "queued",
    "claimed": "being delivered",
    "waiting": "waiting behind another",
    "delivered": "delivered",
    "filtered": "filtered out",
    "held": "held",
    "rejected": "rejected",
    "discarded": "discarded",
    "retry": "to be tried again",
    "refused": "refused",
    "resent": "sent again",
}
ACKNOWLEDGEMENT: Final[Phrases] = {
    "owed": "not sent yet",
    "sent": "sent",
    "unsent": "could not be sent",
    "not_owed": "none was asked for",
}
FOLLOW_UP: Final[Phrases] = {
    "waiting": "no answer yet",
    "accepted": "accepted by the server",
    "refused": "refused by the server",
    "given-up": "given up",
}
# How a request failed; that alone decides what follows.
FAILURE: Final[Phrases] = {
    "transient": "may pass by itself",
    "ambiguous": "unclear whether it took effect",
    "permanent": "refused for good",
    "destination": "the whole destination is concerned",
}
DESTINATION: Final[Phrases] = {
    "ready": "ready",
    "paused": "paused",
    "failing": "cannot be used",
    "unreachable": "does not answer",
    "open": "fails, is tried again",
}
CHANNEL: Final[Phrases] = {"listening": "listening", "stopped": "stopped", "closed": "not listening"}
RUN: Final[Phrases] = {
    "filling": "being prepared",
    "running": "running",
    "paused": "paused",
    "stopped": "stopped",
    "done": "done",
}
# What somebody had done again with a delivery.
ACT: Final[Phrases] = {
    "replay": "Replayed",
    "release": "Released",
    "retry": "Retried",
    "decided": "Decided",
    "given": "Given on",
    "judged-anew": "Evaluated again",
}
# How an attempt was made at a relay; of HTTP the method says it.
METHOD: Final[Phrases] = {"ACK": "later application acknowledgement"}
# How a record at a server has a number, how it is linked, and how a visit is there (FHIR's own words).
NUMBER: Final[Phrases] = {
    "current": "current",
    "old": "no longer in use",
    "merged-away": "merged away",
    "chosen": "chosen by a person",
    "confirmed": "chosen by a person and confirmed",
}
LINK: Final[Phrases] = {
    "replaced-by": "replaced by",
    "replaces": "replaces",
    "seealso": "also known as",
    "refer": "refers to",
}
VISIT: Final[Phrases] = {
    "planned": "planned",
    "arrived": "arrived",
    "triaged": "triaged",
    "in-progress": "under way",
    "onleave": "on leave",
    "finished": "finished",
    "cancelled": "cancelled",
    "entered-in-error": "entered by mistake",
    "unknown": "unknown",
}
KINDS: Final[Mapping[str, Phrases]] = {
    "message": MESSAGE,
    "acknowledgement": ACKNOWLEDGEMENT,
    "follow-up": FOLLOW_UP,
    "failure": FAILURE,
    "destination": DESTINATION,
    "channel": CHANNEL,
    "run": RUN,
    "act": ACT,
    "method": METHOD,
    "number": NUMBER,
    "link": LINK,
    "visit": VISIT,
}

# A note with a place behind it, such as `lost Patient.identifier[0]`.
NOTES: Final[Phrases] = {
    "lost": "the merge leaves out {place} of the merged record",
    "not-kept": "the server keeps no {place}",
    "not-written": "{place} was left as it is there",
    "relayed": "only relays got it ({place})",
    "unmapped-code": "no mapping for the code in {place}",
    "bad-value": "{place} has a value that cannot be used",
    "value-left-out": "a value of {place} was left out",
    "repetition-left-out": "a repetition of {place} was left out",
    "placeholder-identifier": "{place} is a placeholder",
}
ELEMENTS: Final[Phrases] = {
    "identifier": "a number",
    "name": "a name",
    "telecom": "a telephone number or e-mail address",
    "address": "an address",
    "contact": "a contact",
    "communication": "a language",
    "generalPractitioner": "a physician",
    "managingOrganization": "the organization",
    "maritalStatus": "the marital status",
    "birthDate": "the birth date",
    "gender": "the gender",
    "photo": "a picture",
    "link": "a link",
    "extension": "an extension",
}


def phrase(word: object, kind: str = "message") -> str:
    """Return what to say for a word of a kind; a word without a phrase is said without hyphens."""
    text = str(word)
    return KINDS[kind].get(text, text.replace("-", " ").replace("_", " "))


def note_phrase(note: str) -> str:
    """Return a note or flag for people: with its place in words where it has one, else the code, which reasons explain.

    The place is named as the message or the resource has it, too, in brackets.
    """
    code, _, place = note.partition(" ")
    if not place:
        return note
    return NOTES[code].format(place=_place(place)) if code in NOTES else note


def counted(counts: Mapping[str, int], kind: str = "message") -> str:
    """Return counts by word as a list: `3 delivered, 1 held`."""
    return ", ".join(f"{count} {phrase(word, kind)}" for word, count in counts.items())


def _place(place: str) -> str:
    """Return `a number (Patient.identifier[0])`; a place without a word of ours stays as it is."""
    name = place.rpartition(".")[2].partition("[")[0]
    return f"{ELEMENTS[name]} ({place})" if "." in place and name in ELEMENTS else place
