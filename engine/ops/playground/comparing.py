"""What edits of mapping files change: the cases that differ, and what becomes of the newest messages of a channel."""

from pathlib import Path
from typing import Final

from engine.errors import MessageError
from engine.journal.read.reading import Filters, Reader
from engine.mapping.authoring.case import cases_for, cases_of
from engine.mapping.authoring.difference import Comparison
from engine.mapping.compile import compile_mapping, read
from engine.ops.playground.bench import Bench, Json, Question
from engine.ops.playground.site import TESTS, refuse_outside
from engine.ops.views.opinions import failed_cases
from engine.pipeline.inbound.judgement import read_message

PAGE: Final = 200


def checked(bench: Bench, question: Question) -> Json:
    """Read and compile; ConfigurationError holds every problem of mapping and cases."""
    refuse_outside(question.site, question.edited)
    bench.check(question)
    cases_of(question.site.folder, question.edited)
    return {}


def tested(bench: Bench, question: Question) -> Json:
    """Run the cases of the site, edited ones too, or the shipped ones where the site has none.

    ConfigurationError holds every problem of mapping and cases.
    """
    site, edited = question.site, question.edited
    refuse_outside(site, edited)
    source = bench.check(question)
    own = site.folder.is_dir() or any(path.parent == site.folder / TESTS for path in edited)
    cases = cases_for(cases_of(site.folder if own else site.beside, edited), source)
    failed = [
        {
            "file": site.name(case.source.file),
            "line": case.line,
            "case": case.name,
            "differences": list(differences),
        }
        for case, _, differences in failed_cases(cases, source)
    ]
    return {"cases": len(cases), "failed": failed}


def compared(bench: Bench, question: Question, folder: Path, channel: str, limit: int) -> Json:
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
