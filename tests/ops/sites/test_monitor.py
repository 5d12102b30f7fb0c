"""What is known of sites: asked at the same time and at intervals, each for itself, with since when one is silent."""

import asyncio
from datetime import UTC, datetime, timedelta

from engine.config.sites import Sites, SiteSettings
from engine.ops.sites.monitor import VERSION_SECONDS, SiteMonitor
from engine.ops.sites.summary import site_views, worst_of
from tests.flow.rig import free_port
from tests.ops.sites.scripted import Scripted, scripted
from tests.ops.sites.test_asking import WELL

START = datetime(2026, 3, 1, 2, 13, tzinfo=UTC)


class Bench:
    """A monitor whose clocks a test moves, and whose file it writes."""

    def __init__(self, *sites: SiteSettings, seconds: float = 30) -> None:
        self.sites = Sites(sites=sites, refresh_seconds=15, timeout_seconds=seconds)
        self.past = 0.0
        self.monitor = SiteMonitor(lambda: self.sites, self._now, lambda: self.past)

    def _now(self) -> datetime:
        return START + timedelta(seconds=self.past)

    async def after(self, seconds: float) -> None:
        """Let time pass, and ask those whose turn it is."""
        self.past += seconds
        await asyncio.gather(*self.monitor.begin())

    @property
    def kinds(self) -> dict[str, str]:
        """How each site is drawn, in the order shown."""
        return {view.name: view.kind for view in site_views(self.monitor.statuses())}


async def test_a_site_is_asked_once_an_interval_however_often_somebody_looks(north: Scripted) -> None:
    """Five open browsers cost no request more."""
    bench = Bench(north.site())
    for _ in range(5):
        await bench.after(0)
        site_views(bench.monitor.statuses())
    await bench.after(14)
    assert north.asked["/api/v1/channels"] == 1
    await bench.after(1)
    assert north.asked["/api/v1/channels"] == 2


async def test_a_version_is_asked_for_again_after_minutes_and_after_a_silence(north: Scripted) -> None:
    """An upgrade is seen."""
    bench = Bench(north.site())
    await bench.after(0)
    await bench.after(15)
    assert north.asked["/api/v1/openapi.json"] == 1
    await bench.after(VERSION_SECONDS)
    assert north.asked["/api/v1/openapi.json"] == 2
    url = north.url
    answers, north.answers = north.answers, {}
    await bench.after(15)
    north.answers = answers | {"/openapi.json": {"info": {"version": "0.9.1"}}}
    await bench.after(15)
    (status,) = bench.monitor.statuses()
    assert status.answer is not None
    assert (status.answer.version, north.asked["/api/v1/openapi.json"], north.url) == ("0.9.1", 3, url)


async def test_a_slow_site_delays_no_other(north: Scripted) -> None:
    """While one does not answer the others are asked and shown, again and again; the slow one is asked once."""
    async with scripted() as south:
        south.gate.clear()
        bench = Bench(south.site("South"), north.site())
        begun = bench.monitor.begin()
        await south.heard.wait()
        done, waiting = await asyncio.wait(begun, return_when=asyncio.FIRST_COMPLETED)
        assert (len(done), len(waiting)) == (1, 1)
        assert bench.kinds == {"North": "bad", "South": "off"}
        bench.past += 15
        (slow,) = waiting
        await asyncio.gather(*(task for task in bench.monitor.begin() if task is not slow))
        assert (north.asked["/api/v1/channels"], south.asked["/api/v1/channels"]) == (2, 1)
        south.gate.set()
        await slow
        assert bench.kinds == {"South": "bad", "North": "bad"}


async def test_a_silence_says_since_when(north: Scripted) -> None:
    """From its first question without an answer; it is over with the next answer."""
    north.answers |= WELL
    bench = Bench(north.site())
    await bench.after(0)
    assert bench.kinds == {"North": "good"}
    answers, north.answers = north.answers, {}
    await bench.after(15)
    await bench.after(15)
    (status,) = bench.monitor.statuses()
    assert (status.since, status.answered_at) == (START + timedelta(seconds=15), START)
    north.answers = answers
    await bench.after(15)
    (status,) = bench.monitor.statuses()
    assert (status.since, status.answered_at) == (None, START + timedelta(seconds=45))


async def test_those_that_cannot_be_asked_come_first_then_the_gravest(north: Scripted) -> None:
    """Then as in the file."""
    async with scripted() as well, scripted() as held:
        well.answers |= WELL
        held.answers |= WELL | {"/alerts": None}
        gone = north.site("Gone").model_copy(update={"url": f"http://127.0.0.1:{free_port()}"})
        bench = Bench(well.site("Well"), held.site("Held"), north.site("North"), gone)
        await bench.after(0)
        assert bench.kinds == {"Gone": "bad", "North": "bad", "Held": "warn", "Well": "good"}
        assert worst_of(site_views(bench.monitor.statuses())) == "bad"


async def test_a_reload_keeps_what_is_known_of_sites_that_stay(north: Scripted) -> None:
    """One that is new, or is described anew, is asked at the next look; one that is gone is shown no more."""
    async with scripted() as south, scripted() as east:
        bench = Bench(north.site(), south.site("South"))
        await bench.after(0)
        bench.sites = Sites(sites=(north.site(), east.site("South")))
        assert bench.kinds == {"North": "bad", "South": "off"}
        await bench.after(1)
        assert bench.kinds == {"North": "bad", "South": "bad"}
        assert (north.asked["/api/v1/channels"], east.asked["/api/v1/channels"]) == (1, 1)
        bench.sites = Sites()
        await bench.after(20)
        assert (bench.kinds, bench.monitor.is_used, north.asked["/api/v1/channels"]) == ({}, False, 1)


async def test_what_is_under_way_ends_with_the_monitor(north: Scripted) -> None:
    """A stop waits for no site."""
    north.gate.clear()
    bench = Bench(north.site())
    running = asyncio.create_task(bench.monitor.run())
    await north.heard.wait()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert running.cancelled()
    assert bench.kinds == {"North": "off"}
