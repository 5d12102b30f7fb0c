"""The rate limit: the bucket by itself, and the service with and without one (points Z)."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from engine.config.service import RateLimit
from engine.interchange.core.service import RequestThrottle, take
from tests.interchange.kit import Running, issue, running

START = datetime(2026, 3, 2, 6, tzinfo=UTC)
LIMITS = st.builds(
    RateLimit, per_client_per_minute=st.integers(1, 600), burst=st.one_of(st.none(), st.integers(1, 600))
)


@given(LIMITS, st.lists(st.integers(-10_000_000, 90_000_000), max_size=60))
def test_never_more_than_the_limit_says(limit: RateLimit, steps: list[int]) -> None:
    """Within any stretch of time a client makes at most its burst and what that stretch earns, whatever the clock."""
    throttle, at, passed = RequestThrottle(), START, []
    for step in steps:
        at += timedelta(microseconds=step)
        if throttle.wait("engine", limit, at) == 0:
            passed.append(max([at, *passed[-1:]]))
    burst = limit.burst or limit.per_client_per_minute
    for first in range(len(passed)):
        for last in range(first, len(passed)):
            earned = (passed[last] - passed[first]).total_seconds() * limit.per_client_per_minute / 60
            assert last - first + 1 <= burst + earned + 1e-6


@given(LIMITS, st.lists(st.integers(0, 20_000_000), max_size=60))
def test_the_told_seconds_are_enough_and_the_fewest(limit: RateLimit, steps: list[int]) -> None:
    """After the seconds of Retry-After the call passes; a second earlier it does not."""
    bucket, at = None, START
    for step in steps:
        at += timedelta(microseconds=step)
        bucket, seconds = take(bucket, limit, at)
        if seconds:
            assert take(bucket, limit, at + timedelta(seconds=seconds))[1] == 0
            assert take(bucket, limit, at + timedelta(seconds=seconds - 1))[1] > 0


def test_clients_do_not_share_a_bucket() -> None:
    """What one client uses up does not stop another one."""
    throttle, limit = RequestThrottle(), RateLimit(per_client_per_minute=1)
    assert [throttle.wait(name, limit, START) for name in ("a", "b", "a")] == [0, 0, 60]


def test_a_limited_service(tmp_path: Path) -> None:
    """C-552: the call beyond the limit is 429 throttled with Retry-After, and passes after it; other doors are open."""
    with running(tmp_path, rate_limit=RateLimit(per_client_per_minute=5)) as service:
        for _ in range(5):
            assert service.ask("GET", "/fhir/R4/Patient").status_code == 200
        refused = service.ask("GET", "/fhir/R4/Patient")
        issue(refused, 429, "throttled")
        assert 1 <= int(refused.headers["retry-after"]) <= 12
        assert service.ask("GET", "/fhir/R4/Patient", client="nurse").status_code == 200
        for path in ("/fhir/R4/metadata", "/livez", "/readyz", "/.well-known/smart-configuration"):
            assert service.http.get(service.url + path).status_code == 200
        service.tokens.clear()
        issue(service.ask("GET", "/fhir/R4/Patient"), 429, "throttled")
        service.advance(12)
        assert service.ask("GET", "/fhir/R4/Patient").status_code == 200
        issue(service.ask("GET", "/fhir/R4/Patient"), 429, "throttled")


def test_a_burst(tmp_path: Path) -> None:
    """Section 17: `burst` says how many calls may come at once, the rate how soon there are new ones."""
    with running(tmp_path, rate_limit=RateLimit(per_client_per_minute=60, burst=2)) as service:
        answers = [service.ask("GET", "/fhir/Patient").status_code for _ in range(3)]
        assert answers[:2] == [200, 200]
        service.advance(1)
        assert service.ask("GET", "/fhir/Patient").status_code == 200


def test_no_limit_by_default(service: Running) -> None:
    """C-553: without a limit in the configuration, a thousand calls in a row are answered."""
    headers = {"authorization": f"Bearer {service.token('physician')}"}
    statuses = [
        service.http.get(f"{service.url}/fhir/R4/Patient/nobody", headers=headers).status_code for _ in range(1000)
    ]
    assert statuses == [404] * 1000
