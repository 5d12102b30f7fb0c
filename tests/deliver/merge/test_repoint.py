"""Visits after a merge by links: those that the engine wrote go to the survivor; that others stay is told."""

from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import parse_qs

import pytest

from engine.deliver.merge.union import MOST_VISITS
from engine.deliver.verdict import Owned, Verdict, VerdictKind
from engine.fhir.plan import Upsert
from tests.deliver.conftest import Site
from tests.deliver.fake_chart import FakeChart
from tests.deliver.fake_fhir import Step

SURVIVOR, GONE = {"reference": "Patient/p1"}, {"reference": "Patient/p2"}


class Linking(FakeChart):
    """A server that keeps visits and has no merge; a search shows as many as were asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.merges = False

    def _statement(self) -> dict[str, Any]:
        statement = super()._statement()
        statement["rest"][0]["resource"].append({"type": "Encounter"})
        return statement

    def _look(self, type_: str, query: str) -> list[dict[str, Any]]:
        return super()._look(type_, query)[: int(parse_qs(query).get("_count", ["100"])[0])]


@pytest.fixture
async def chart() -> AsyncIterator[FakeChart]:
    """The server, listening."""
    fake = Linking()
    await fake.start()
    yield fake
    await fake.stop()


@pytest.fixture
async def linking(chart: FakeChart, patient: Any) -> AsyncIterator[Site]:
    """A destination that merges by links, with two patients known to it."""
    site = Site(chart.base).open(merge_strategy="link")
    await site.send(Upsert(patient("1", birthDate="1984-02-29")))
    await site.send(Upsert(patient("2", birthDate="1984-02-29")))
    yield site
    await site.close()


def visit(chart: FakeChart, site: Site, name: str, source: str = "ADT|RVB", subject: dict[str, str] = GONE) -> str:
    """Put a visit there which a source has written, or somebody else where that is empty."""
    reference = f"Encounter/{name}"
    chart._keep(reference, {"resourceType": "Encounter", "identifier": [], "subject": subject})
    if source:
        slices = {"status": ("digest",)}
        site.memory.learn(Verdict(VerdictKind.DELIVERED, "", owned=(Owned(reference, source, slices),)))
    return reference


async def test_visits_that_the_engine_wrote_go_to_the_survivor(chart: FakeChart, linking: Site, merging: Any) -> None:
    """By whichever of its feeds; what a stranger wrote stays, and that is told."""
    mine, other = visit(chart, linking, "e1"), visit(chart, linking, "e2", "LAB|RVB")
    theirs, elsewhere = visit(chart, linking, "e3", ""), visit(chart, linking, "e4", subject=SURVIVOR)
    verdict = await linking.send(merging("2", "1"))
    assert verdict.reason == "linked"
    assert {"visits-repointed", "visits-left-behind"} <= set(verdict.notes)
    assert [chart.chart[one]["subject"] for one in (mine, other, theirs, elsewhere)] == [
        SURVIVOR, SURVIVOR, GONE, SURVIVOR,
    ]  # fmt: skip


async def test_more_visits_than_one_answer_shows_all_go(chart: FakeChart, linking: Site, merging: Any) -> None:
    """What is moved is found no more, so that the next ones are."""
    for number in range(MOST_VISITS + 3):
        visit(chart, linking, f"e{number}")
    verdict = await linking.send(merging("2", "1"))
    assert "visits-left-behind" not in verdict.notes
    assert {one["subject"]["reference"] for one in chart.of("Encounter")} == {"Patient/p1"}


@pytest.mark.parametrize("status", [422, 403])
async def test_a_server_that_refuses_leaves_them_and_that_is_told(
    chart: FakeChart, linking: Site, merging: Any, status: int
) -> None:
    """The merge stands; nobody is held for it."""
    reference = visit(chart, linking, "e1")
    chart.script.append(Step("PUT", status=status, path="Encounter"))
    verdict = await linking.send(merging("2", "1"))
    assert (verdict.kind, verdict.reason) == (VerdictKind.DELIVERED, "linked")
    assert "visits-left-behind" in verdict.notes
    assert chart.chart[reference]["subject"] == GONE


async def test_a_merge_cut_off_after_its_links_finishes_with_the_visits(
    chart: FakeChart, linking: Site, merging: Any
) -> None:
    """The links stand, the answer to the visit's update does not come: the next try finds the rest to do."""
    reference = visit(chart, linking, "e1")
    chart.script.append(Step("PUT", status=500, path="Encounter"))
    assert (await linking.send(merging("2", "1"))).kind is VerdictKind.RETRY
    verdict = await linking.send(merging("2", "1"), attempts_made=9)
    assert verdict.reason in {"linked", "already-merged"}
    assert chart.chart[reference]["subject"] == SURVIVOR


async def test_a_visit_that_changes_meanwhile_keeps_the_change(chart: FakeChart, linking: Site, merging: Any) -> None:
    """412: it is read again, and goes with what somebody else wrote."""
    reference = visit(chart, linking, "e1")
    chart.script.append(Step("PUT", status=412, path="Encounter"))
    chart.write(reference, status="finished")
    await linking.send(merging("2", "1"))
    assert (chart.chart[reference]["subject"], chart.chart[reference]["status"]) == (SURVIVOR, "finished")
