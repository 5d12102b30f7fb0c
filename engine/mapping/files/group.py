"""Groups of segments: each PID with its MRG, and the segments of one patient."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from engine.hl7.message import Message, Segment


class MergeGroup(NamedTuple):
    """One PID with its MRG; either may be missing (None)."""

    pid: Segment | None
    mrg: Segment | None


# The group of a message without PID and MRG.
NO_GROUP: Final = (MergeGroup(None, None),)
SEGMENT_LEFT_OUT: Final = "segment-left-out"
# Segments that are read once for a patient: the first one.
ALONE: Final = ("PV1", "PV2", "PD1")
_LEADING: Final = frozenset({"PID", "MRG"})


def merge_groups(message: Message) -> tuple[MergeGroup, ...]:
    """Return the PID/MRG groups in order: an MRG belongs to the PID before it, or if an MRG comes first, after it."""
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
    """Return the number of a segment among those of its name, from 1."""
    return sum(one.position <= segment.position for one in message.named(segment.name))


def pair_places(group: MergeGroup, message: Message) -> tuple[str, ...]:
    """Return the places of the numbers of a PID and its MRG: `PID(2)-3`, `MRG(2)-1`."""
    sides = ((group.pid, 3), (group.mrg, 1))
    return tuple(f"{one.name}({number_of(one, message)})-{field}" for one, field in sides if one is not None)


def visit_segments(message: Message, group: MergeGroup) -> tuple[Segment, ...]:
    """Return the segments of a moved visit: MRG and those that follow, then the same for its PID, and the header."""
    segments = message.segments
    at = [index for index, segment in enumerate(segments) if segment.name in _LEADING] or [len(segments)]
    ends = dict(zip(at, [*at[1:], len(segments)], strict=True))
    indices = [
        index for one in (group.mrg, group.pid) for index in at if index < len(segments) and segments[index] is one
    ]
    return (*(segment for index in indices for segment in segments[index : ends[index]]), *segments[: at[0]])


def patient_segments(message: Message, pid: Segment | None) -> tuple[Segment, ...]:
    """Return the segments of a PID's patient: from it up to the next PID, and the header."""
    segments = message.segments
    pids = [index for index, segment in enumerate(segments) if segment.name == "PID"]
    if len(pids) <= 1 or pid is None:
        return segments
    start = next(index for index in pids if segments[index] is pid)
    end = next((index for index in pids if index > start), len(segments))
    return (*segments[: pids[0]], *segments[start:end])


def further(segments: Mapping[str, Sequence[Segment]]) -> list[str]:
    """Return a warning for each unread, different segment after the first of a kind that is read once."""
    return [
        f"{SEGMENT_LEFT_OUT} {name}({number})"
        for name in ALONE
        if len(group := segments.get(name, ())) > 1
        for number, one in enumerate(group[1:], 2)
        if one.text != group[0].text
    ]
