"""The demo's feed: samples sent one by one, each followed to its end and compared with what is expected of it."""

import asyncio
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from engine.config.samples import Expectation, ExpectedChart, FeedSample, load_samples
from engine.config.settings import shipped
from engine.mllp.acknowledgement import Ack
from engine.ops.demo.chart import DemoCharts, Resource, facts_of
from engine.ops.demo.receivers import RADIOLOGY
from engine.ops.operations.messages import ListMessages, ShowMessage, Stats
from engine.ops.sender.line import BlockAnswer, send_messages
from engine.ops.terminal.command import ask
from engine.ops.views.entry import Entry

SETTLE_SECONDS: Final = 20.0
ENDS: Final = frozenset({"delivered", "filtered", "held", "rejected", "discarded"})


@dataclass(frozen=True, slots=True)
class FeedResult:
    """What came of one message: acknowledgement, end, FHIR calls, the patient, and what was unexpected."""

    file: str
    event: str
    ack: str
    outcome: str
    reason: str
    calls: str
    patient: str
    differences: tuple[str, ...]

    @property
    def as_expected(self) -> bool:
        """Whether nothing differed from samples/expected.yaml."""
        return not self.differences

    def as_row(self) -> dict[str, object]:
        """Return it for JSON."""
        return asdict(self) | {"as_expected": self.as_expected}


async def feed(
    data: Path, port: int, charts: DemoCharts, watch: Callable[[FeedResult], None] | None
) -> list[FeedResult]:
    """Send every sample in order and return what came of each message; `watch` hears of each as it ends."""
    results: list[FeedResult] = []
    for sample in load_samples(shipped("samples")):
        before = (await asyncio.to_thread(ask, data, Stats())).last
        answers = await send_messages("127.0.0.1", port, [sample.raw], timeout_seconds=SETTLE_SECONDS)
        entries = await _ended(data, before)
        for position, expected in enumerate(sample.expect):
            one = await _result(sample, position, expected, answers[0], entries, charts)
            results.append(one)
            if watch:
                watch(one)
    return results


async def _ended(data: Path, after: int) -> list[Entry]:
    """Return the entries recorded since, in full and in order, once all have ended."""
    async with asyncio.timeout(SETTLE_SECONDS):
        while True:
            page = await asyncio.to_thread(ask, data, ListMessages(limit=20))
            rows = [row for row in page.entries if row.entry > after]
            if all(row.state in ENDS for row in rows):
                return [await asyncio.to_thread(ask, data, ShowMessage(entry=row.entry)) for row in reversed(rows)]
            await asyncio.sleep(0.02)


async def _result(
    sample: FeedSample,
    position: int,
    expected: Expectation,
    answer: BlockAnswer,
    entries: list[Entry],
    charts: DemoCharts,
) -> FeedResult:
    entry = entries[position] if position < len(entries) else None
    ack = answer.acks[position] if position < len(answer.acks) else None
    resource, found_by = await _chart(sample.identifier_system, expected.patient, charts)
    differences = [*_ack_differences(expected, ack, answer), *_entry_differences(expected, entry)]
    if expected.patient:
        differences += _chart_differences(expected.patient, resource, found_by)
    return FeedResult(
        sample.file,
        entry.event if entry else answer.event,
        ack.code if ack else "none",
        entry.state if entry else "resent",
        entry.reason if entry else "the stored answer, nothing applied",
        _calls(entry),
        _words(resource) if resource else "",
        tuple(differences),
    )


def _ack_differences(expected: Expectation, ack: Ack | None, answer: BlockAnswer) -> list[str]:
    code = ack.code if ack else "none"
    found = [f"answered {code}, expected {expected.ack}"] if code != expected.ack else []
    errors = {error for error, _ in ack.errors} if ack else set()
    if expected.error and expected.error not in errors:
        found.append(f"ERR-3 {' '.join(sorted(errors)) or 'absent'}, expected {expected.error}")
    if expected.application and answer.acks[-1].code != expected.application:
        found.append(f"application acknowledgement {answer.acks[-1].code}, expected {expected.application}")
    return found


def _entry_differences(expected: Expectation, entry: Entry | None) -> list[str]:
    if expected.duplicate or entry is None:
        return [] if expected.duplicate and entry is None else ["an entry of its own: expected none, or none was made"]
    found = []
    if entry.state != expected.outcome:
        found.append(f"ended {entry.state} {entry.reason}, expected {expected.outcome}")
    if expected.reason and entry.reason != expected.reason:
        found.append(f"reason {entry.reason}, expected {expected.reason}")
    words = {entry.reason, *entry.flags, *(note for delivery in entry.deliveries for note in delivery.notes)}
    words |= {delivery.reason for delivery in entry.deliveries}
    return found + [f"not told: {word}" for word in (*expected.notes, *expected.flags) if word not in words]


async def _chart(
    system: str, chart: ExpectedChart | None, charts: DemoCharts
) -> tuple[Resource | None, dict[str, Resource | None]]:
    if chart is None:
        return None, {}
    others = {number: await charts.by_identifier(system, number) for number in chart.found_by}
    return await charts.by_identifier(system, chart.identifier), others


def _chart_differences(
    chart: ExpectedChart, resource: Resource | None, found_by: dict[str, Resource | None]
) -> list[str]:
    if resource is None:
        return [f"no one patient under {chart.identifier}"]
    facts = facts_of(resource)
    found = [
        f"{word} is {facts.get(word)!r}, expected {value!r}"
        for word, value in chart.facts.items()
        if facts.get(word) != value
    ]
    found += [
        f"{number} does not lead to {chart.identifier}"
        for number, other in found_by.items()
        if other is None or other["id"] != resource["id"]
    ]
    return found


def _calls(entry: Entry | None) -> str:
    if entry is None:
        return ""
    attempts = [one for delivery in entry.deliveries if delivery.destination != RADIOLOGY for one in delivery.attempts]
    calls = [f"{one.method} {_path(one.url)} {one.status or 'no answer'}" for one in attempts]
    return ", ".join(calls) or entry.reason


def _path(url: str) -> str:
    return url.split("/R4/", 1)[-1].split("?", 1)[0]


def _words(resource: Resource) -> str:
    facts = facts_of(resource)
    version = resource.get("meta", {}).get("versionId", "?")
    words = (facts["given"], facts["family"], facts["gender"], facts["birthDate"], facts["phone"])
    return f"Patient/{resource['id']} version {version}: {' '.join(filter(None, words))}"
