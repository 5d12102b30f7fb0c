"""Groups of segments: which PID belongs to which MRG, and which segments speak of the same patient."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from engine.hl7.message import Message, Segment


class MergeGroup(NamedTuple):
    """One PID with its MRG; either is None where its counterpart is missing."""

    pid: Segment | None
    mrg: Segment | None


# What a message without PID and MRG has in their place.
NO_GROUP: Final = (MergeGroup(None, None),)
SEGMENT_LEFT_OUT: Final = "segment-left-out"
# Segments of which the first of a patient is read, and no other.
ALONE: Final = ("PV1", "PV2", "PD1")
_LEADING: Final = frozenset({"PID", "MRG"})


def merge_groups(message: Message) -> tuple[MergeGroup, ...]:
    """Return the PID/MRG groups in order: an MRG goes with the PID before it; where one leads, each with the next."""
    groups: list[MergeGroup] = []
    early: list[Segment] = []
    current: Segment | None = None
    taken, leading = True, False
    for segment in message.segments:
        if segment.name == "PID":
            if not taken:
                groups.append(MergeGroup(current, None))
            current, taken = segment, bool(early)
            groups.extend(MergeGroup(segment, mrg) for mrg in early)
            early = []
        elif segment.name == "MRG":
            leading = leading or current is None
            if leading:
                early.append(segment)
            else:
                groups.append(MergeGroup(current, segment))
                taken = True
    groups.extend(MergeGroup(None, mrg) for mrg in early)
    if not taken:
        groups.append(MergeGroup(current, None))
    return tuple(groups)


def number_of(segment: Segment, message: Message) -> int:
    """Return which of the segments of its name this one is, from 1."""
    return sum(one.position <= segment.position for one in message.named(segment.name))


def pair_places(group: MergeGroup, message: Message) -> tuple[str, ...]:
    """Return where the numbers of a PID and its MRG stand among others: `PID(2)-3`, `MRG(2)-1`."""
    sides = ((group.pid, 3), (group.mrg, 1))
    return tuple(f"{one.name}({number_of(one, message)})-{field}" for one, field in sides if one is not None)


def visit_segments(message: Message, group: MergeGroup) -> tuple[Segment, ...]:
    """Return the segments that speak of what is moved: MRG and what follows, then the same of its PID, the header."""
    segments = message.segments
    at = [index for index, segment in enumerate(segments) if segment.name in _LEADING] or [len(segments)]
    ends = dict(zip(at, [*at[1:], len(segments)], strict=True))
    found = [
        index for one in (group.mrg, group.pid) for index in at if index < len(segments) and segments[index] is one
    ]
    return (*(segment for index in found for segment in segments[index : ends[index]]), *segments[: at[0]])


def patient_segments(message: Message, pid: Segment | None) -> tuple[Segment, ...]:
    """Return the segments that speak of the patient of a PID: from it up to the next PID, and the header."""
    segments = message.segments
    pids = [index for index, segment in enumerate(segments) if segment.name == "PID"]
    if len(pids) <= 1 or pid is None:
        return segments
    start = next(index for index in pids if segments[index] is pid)
    end = next((index for index in pids if index > start), len(segments))
    return (*segments[: pids[0]], *segments[start:end])


def further(segments: Mapping[str, Sequence[Segment]]) -> list[str]:
    """Return a warning for each further segment of a kind of which a patient has one, where it differs."""
    return [
        f"{SEGMENT_LEFT_OUT} {name}({number})"
        for name in ALONE
        if len(group := segments.get(name, ())) > 1
        for number, one in enumerate(group[1:], 2)
        if one.text != group[0].text
    ]
