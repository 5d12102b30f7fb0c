"""What edits of mapping files change: the cases that differ, and what becomes of the newest messages of a channel."""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from engine.config.channel import Channel
from engine.errors import ConfigurationError, MessageError
from engine.fhir.json import JsonObject
from engine.hl7.message import Message
from engine.hl7.message import parse as parse_message
from engine.journal.read.reading import Filters, Reader
from engine.journal.read.views import EntryRow
from engine.mapping.authoring.case import Case, CaseResult, cases_for, cases_of, channel_of, run_cases, unreplaced
from engine.mapping.authoring.difference import Comparison, DifferenceGroup, DifferenceKind
from engine.mapping.compile import MappingSource, compile_mapping, read
from engine.ops.playground.bench import Bench, BenchRequest
from engine.ops.playground.site import TESTS, MappingSite, refuse_outside
from engine.ops.views.plans import failed_cases
from engine.pipeline.inbound.judgement import read_message

PAGE: Final = 200


def checked(bench: Bench, question: BenchRequest) -> JsonObject:
    """Read and compile; ConfigurationError holds every problem of mapping and cases."""
    refuse_outside(question.site, question.edited)
    bench.watched(question)
    cases_of(question.site.folder, question.edited)
    return {}


def tested(bench: Bench, question: BenchRequest, asked: JsonObject) -> JsonObject:
    """Run the cases of the site, edited ones too, and the shipped ones, which show what the site changes.

    Where the site has no cases, the shipped ones must hold. `lost`: what the mapping in force makes of the messages of
    all of them, and of the channel's newest ones, and this one does not. `asked`: the journal's folder (`data`), the
    channel (`name`), how many of its messages (`recent`), and whether the cases are run, too (`cases`).
    ConfigurationError holds every problem of mapping and cases.
    """
    site, edited = question.site, question.edited
    refuse_outside(site, edited)
    source = bench.watched(question).source
    if not asked.get("cases", True):
        return _lost(question, source, (), asked)
    own = site.folder.is_dir() or any(path.parent == site.folder / TESTS for path in edited)
    mine = cases_for(cases_of(site.folder, edited), source) if own else []
    theirs = cases_for(unreplaced(mine, cases_of(site.shipped)), source)
    cases, others = (mine, theirs) if own else (theirs, [])
    return {
        "cases": len(cases),
        "failed": _shown(site, failed_cases(cases, source)),
        "shipped": len(others),
        "changed": _shown(site, [run_case for run_case in run_cases(others, source) if run_case.differences]),
        **_lost(question, source, [*cases, *others], asked),
    }


def _shown(site: MappingSite, failed: Sequence[CaseResult]) -> list[JsonObject]:
    return [
        {"file": site.name(case.source.file), "line": case.line, "case": case.name, "differences": list(differences)}
        for case, _, differences in failed
    ]


def _lost(question: BenchRequest, source: MappingSource, cases: Sequence[Case], asked: JsonObject) -> JsonObject:
    """Return the elements that are made no longer, with how many messages of cases and newest ones had them.

    `recent`: how many of the newest messages could be read; none is looked at where nothing is edited.
    """
    if not question.edited:
        return {}
    site = question.site
    try:
        before = read(site.folders, question.mapping)
        compile_mapping(before, channel_of({}))
    except ConfigurationError:  # that file is in force nowhere
        before = read((site.shipped, site.shipped), question.mapping)
    of_cases = _comparison(before, source, channel_of({}))
    for case in cases:
        with contextlib.suppress(MessageError):
            of_cases.add(case.name, parse_message(case.raw, event_from_evn=False))
    recent = _comparison(before, source, question.channel)
    if asked.get("recent"):
        for row, message in _newest(Path(asked["data"]), asked["name"], question.channel, asked["recent"]):
            if message is not None:
                recent.add(str(row.seq), message)
    counts = [
        {group.path: group.count for group in one.found.groups() if _is_loss(group)} for one in (of_cases, recent)
    ]
    lost = [
        {"element": path, "messages": counts[0].get(path, 0), "recent": counts[1].get(path, 0)}
        for path in dict.fromkeys((*counts[0], *counts[1]))
    ]
    return {"lost": lost, "recent": recent.found.messages}


def _is_loss(group: DifferenceGroup) -> bool:
    """True for an element that is made no longer, and for a resource that is asked for no longer."""
    return group.kind is DifferenceKind.REMOVED or (group.kind is DifferenceKind.STEP and group.after is None)


def _comparison(before: MappingSource, after: MappingSource, channel: Channel) -> Comparison:
    return Comparison(*(compile_mapping(one, channel) for one in (before, after)))


def _newest(folder: Path, name: str, channel: Channel, limit: int) -> Iterator[tuple[EntryRow, Message | None]]:
    """Yield the newest entries of a channel with their messages, None for one that cannot be read."""
    left, upto = limit, None
    with Reader(folder) as reader:
        while left > 0 and (rows := reader.list(Filters(channel=name), min(left, PAGE), upto)):
            left, upto = left - len(rows), rows[-1].seq
            for row in rows:
                try:
                    yield row, read_message(reader.show(row.seq).raw, channel, row.event)
                except MessageError:
                    yield row, None


def compared(bench: Bench, question: BenchRequest, folder: Path, channel: str, limit: int) -> JsonObject:
    """Compare what becomes of a channel's newest messages with and without the edits; the journal is only read."""
    before = read(question.site.folders, question.mapping)
    after = bench.source(question)
    found, unreadable = _comparison(before, after, question.channel), 0
    for row, message in _newest(folder, channel, question.channel, limit):
        if message is None:
            unreadable += 1
        else:
            found.add(str(row.seq), message)
    changes = [
        {
            "kind": group.kind.value,
            "path": group.path,
            "count": group.count,
            "entry": int(group.example),
            "before": group.before,
            "after": group.after,
        }
        for group in found.found.groups()
    ]
    counts = {"messages": found.found.messages, "differing": found.found.differing, "unreadable": unreadable}
    return {**counts, "changes": changes}
