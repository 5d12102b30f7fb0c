"""Every refusal on FHIR's addresses, by status and code, in the one shape of an OperationOutcome (points Z)."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from engine.config.service import RateLimit
from tests.interchange.kit import Outside, issue, merge_body, patient, record_number, running

JSON = {"content-type": "application/fhir+json"}


@dataclass(frozen=True)
class Row:
    """A request that is refused: what is sent, and with which status and code; STU3's own where it has one."""

    method: str
    path: str
    status: int
    code: str
    sent: dict[str, Any] = field(default_factory=dict)
    stu3: tuple[int, str] = (0, "")

    def expected(self, base: str) -> tuple[int, str]:
        """Return the status and the code on a base."""
        return self.stu3 if self.stu3[0] and not base.endswith("R4") else (self.status, self.code)


def body(**elements: Any) -> dict[str, Any]:
    """Return what sends a Patient."""
    return {"json": patient(**elements)}


OBSERVATION = {"resourceType": "Observation", "status": "final", "code": {"text": "x"}}
ROWS = {
    "no JSON": Row("POST", "/Patient", 400, "structure", {"content": b"{", "headers": JSON}),
    "another type": Row("POST", "/Patient", 400, "structure", {"json": OBSERVATION}),
    "missing element": Row("POST", "/Patient", 400, "required", body(gender=None)),
    "missing parameter": Row("GET", "/Condition", 400, "required"),
    "missing merge source": Row("POST", "/Patient/$merge", 400, "required", {"json": merge_body(None, "x")}),
    "bad page size": Row("GET", "/Patient?_count=abc", 400, "invalid"),
    "repeated parameter": Row("GET", "/Patient?family=a&family=b", 400, "invalid"),
    "body of another id": Row("PUT", "/Patient/a", 400, "invalid", body(id="b")),
    "unknown parameter": Row("GET", "/Patient?foo=1", 400, "not-supported"),
    "unsupported modifier": Row("GET", "/Patient?family:not=a", 400, "not-supported"),
    "too deep a page": Row("GET", "/Patient?_offset=9980", 400, "too-costly"),
    "role": Row("POST", "/Patient/$merge", 403, "forbidden", {"client": "administrative", "json": {}}),
    "scope": Row("GET", "/Patient", 403, "forbidden", {"client": "observation"}),
    "unknown type": Row("GET", "/Nonsense", 404, "not-supported"),
    "unknown operation": Row("GET", "/Patient/$nonsense", 404, "not-supported"),
    "unknown id": Row("GET", "/Patient/nobody", 404, "not-found"),
    "method": Row("POST", "/Patient/nobody", 405, "not-supported", {"json": {}}),
    "method of metadata": Row("POST", "/metadata", 405, "not-supported", {"json": {}}),
    "accept": Row("GET", "/Patient", 406, "not-supported", {"headers": {"accept": "application/fhir+xml"}}),
    "media type": Row(
        "POST", "/Patient", 415, "not-supported", {"content": b"x", "headers": {"content-type": "text/a"}}
    ),
    "record number taken": Row("POST", "/Patient", 409, "duplicate", body(identifier=[record_number("TAKEN")])),
    "stale version": Row(
        "PUT",
        "/Patient/there",
        412,
        "conflict",
        {**body(id="there"), "headers": {"if-match": 'W/"9"'}},
        stu3=(409, "conflict"),
    ),
    "several matches": Row(
        "POST",
        "/Patient",
        412,
        "multiple-matches",
        {**body(), "headers": {"if-none-exist": "family=Quintero"}},
        stu3=(412, "duplicate"),
    ),
    "body too large": Row("POST", "/Patient", 413, "too-long", body(address=[{"text": "x" * 5000}])),
    "wrong value": Row("POST", "/Patient", 422, "invalid", body(gender="X")),
    "unknown reference": Row(
        "POST", "/Patient", 422, "not-found", body(managingOrganization={"reference": "Organization/nobody"})
    ),
    "rule": Row("POST", "/Patient/$merge", 422, "business-rule", {"json": merge_body("there", "there")}),
}


@pytest.fixture(scope="module")
def refusing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outside]:
    """A service with small limits, two patients of one name, and a record number that is taken."""
    with running(tmp_path_factory.mktemp("refusing"), max_body_bytes=4096, request_timeout_s=2) as found:
        found.create(identifier=[record_number("TAKEN")])
        assert found.ask("PUT", "/fhir/R4/Patient/there", json=patient(id="there")).status_code == 201
        yield found


@pytest.mark.parametrize("row", [pytest.param(row, id=name) for name, row in ROWS.items()])
def test_every_refusal_is_an_outcome(refusing: Outside, base: str, row: Row) -> None:
    """C-550: status and code of each refusal; each issue has severity, code, diagnostics and a location."""
    before = refusing.ask("GET", "/fhir/R4/Patient?_count=0").json()["total"]
    answer = refusing.ask(row.method, base + row.path, **row.sent)
    issue(answer, *row.expected(base))
    assert answer.headers["x-request-id"]
    assert refusing.ask("GET", "/fhir/R4/Patient?_count=0").json()["total"] == before


def test_refusals_of_who_asks_and_of_what_fails(refusing: Outside, base: str) -> None:
    """C-550: so are 401, for no token and for one that has expired, 500 and 504."""
    issue(refusing.http.get(f"{refusing.url}{base}/Patient"), 401, "login")
    for body, status, code in (({"times": 1}, 500, "exception"), ({"seconds": 5}, 504, "timeout")):
        hook = "slow" if "seconds" in body else "fail"
        asked = refusing.http.post(f"{refusing.url}/_test/{hook}", json={"path": "/fhir", **body})
        assert asked.status_code == 200
        issue(refusing.ask("GET", f"{base}/Patient"), status, code)


def test_refusals_by_the_clock(own_service: Outside, base: str) -> None:
    """C-550, C-552: 401 for an expired token, 429 for calls beyond the limit, which a reload brings into force."""
    headers = {"authorization": f"Bearer {own_service.token('physician')}"}
    own_service.advance(3601)
    issue(own_service.http.get(f"{own_service.url}{base}/Patient", headers=headers), 401, "expired")
    own_service.tokens.clear()
    own_service.reload(rate_limit=RateLimit(per_client_per_minute=1))
    assert own_service.ask("GET", f"{base}/Patient").status_code == 200
    refused = own_service.ask("GET", f"{base}/Patient")
    issue(refused, 429, "throttled")
    assert 1 <= int(refused.headers["retry-after"]) <= 60
