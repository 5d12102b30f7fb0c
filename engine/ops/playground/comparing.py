"""What edits of mapping files change: the cases that differ, and what becomes of the newest messages of a channel."""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from engine.errors import ConfigurationError, MessageError
from engine.fhir.json import JsonObject
from engine.hl7.message import parse as parse_message
from engine.journal.read.reading import Filters, Reader
from engine.mapping.authoring.case import Case, CaseResult, cases_for, cases_of, channel_of, run_cases, unreplaced
from engine.mapping.authoring.difference import Comparison, DifferenceKind
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


def tested(bench: Bench, question: BenchRequest) -> JsonObject:
    """Run the cases of the site, edited ones too, and the shipped ones, which show what the site changes.

    Where the site has no cases, the shipped ones must hold. `lost`: what the mapping in force makes of the messages of
    all of them, and this one does not. ConfigurationError holds every problem of mapping and cases.
    """
    site, edited = question.site, question.edited
    refuse_outside(site, edited)
    source = bench.watched(question).source
    own = site.folder.is_dir() or any(path.parent == site.folder / TESTS for path in edited)
    mine = cases_for(cases_of(site.folder, edited), source) if own else []
    theirs = cases_for(unreplaced(mine, cases_of(site.shipped)), source)
    cases, others = (mine, theirs) if own else (theirs, [])
    return {
        "cases": len(cases),
        "failed": _shown(site, failed_cases(cases, source)),
        "shipped": len(others),
        "changed": _shown(site, [run_case for run_case in run_cases(others, source) if run_case.differences]),
        "lost": list(_lost(question, source, [*cases, *others])),
    }


def _shown(site: MappingSite, failed: Sequence[CaseResult]) -> list[JsonObject]:
    return [
        {"file": site.name(case.source.file), "line": case.line, "case": case.name, "differences": list(differences)}
        for case, _, differences in failed
    ]


def _lost(question: BenchRequest, source: MappingSource, cases: Sequence[Case]) -> Iterator[JsonObject]:
    """Yield the elements that are made no longer, with how many of the cases' messages had them."""
    if not question.edited:
        return
    site = question.site
    try:
        before = compile_mapping(read(site.folders, question.mapping), channel_of({}))
    except ConfigurationError:  # that file is in force nowhere
        before = compile_mapping(read((site.shipped, site.shipped), question.mapping), channel_of({}))
    found = Comparison(before, compile_mapping(source, channel_of({})))
    for case in cases:
        with contextlib.suppress(MessageError):
            found.add(case.name, parse_message(case.raw, event_from_evn=False))
    for group in found.found.groups():
        if group.kind is DifferenceKind.REMOVED or (group.kind is DifferenceKind.STEP and group.after is None):
            yield {"element": group.path, "messages": group.count}


def compared(bench: Bench, question: BenchRequest, folder: Path, channel: str, limit: int) -> JsonObject:
    """Compare what becomes of a channel's newest messages with and without the edits; the journal is only read."""
    before = read(question.site.folders, question.mapping)
    after = bench.source(question)
    found = Comparison(*(compile_mapping(one, question.channel) for one in (before, after)))
    unreadable, left, upto = 0, limit, None
    with Reader(folder) as reader:
        while left > 0 and (rows := reader.list(Filters(channel=channel), min(left, PAGE), upto)):
            left, upto = left - len(rows), rows[-1].seq
            for row in rows:
                try:
                    message = read_message(reader.show(row.seq).raw, question.channel, row.event)
                except MessageError:
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
