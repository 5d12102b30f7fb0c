"""Which versions a delivery has written, and when, as far as the answers say."""

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import orjson
import pytest

from engine.deliver.verdict import WrittenVersion
from engine.deliver.wire.client import ServerResponse
from engine.deliver.wire.exchange import Exchange, versions

PLACE = "https://fhir.example/R4/Patient/1/_history/4"
MODIFIED = "Sun, 01 Mar 2026 12:00:03 GMT"
DATE = "Sun, 01 Mar 2026 12:00:09 GMT"
META = {"versionId": "4", "lastUpdated": "2026-03-01T12:00:03.250Z"}


def written(method: str, headers: dict[str, str], **body: Any) -> tuple[WrittenVersion, ...]:
    """Return what one answer says was written."""
    answer = ServerResponse(200, headers, orjson.dumps(body), body or None, 0.0)
    return versions(cast(Exchange, SimpleNamespace(writes=[(method, "Patient/1", answer)], proven=[])))


@pytest.mark.parametrize(
    ("headers", "meta", "second"),
    [
        ({"etag": 'W/"4"', "last-modified": MODIFIED, "date": DATE}, {}, 3),
        ({"etag": 'W/"4"', "date": DATE}, {}, 9),
        ({"date": DATE}, META, 3),
        ({"location": PLACE, "date": DATE}, {}, 9),
        ({"etag": 'W/"4"'}, {}, None),
        ({"etag": 'W/"4"', "date": "soon"}, {}, None),
    ],
)
def test_a_version_and_its_moment(headers: dict[str, str], meta: dict[str, str], second: int | None) -> None:
    """From the body, the ETag or the place; its moment by the server's clock."""
    (found,) = written("PUT", headers, meta=meta)
    at = None if found.at is None else found.at.replace(microsecond=0)
    assert (found.reference, found.version) == ("Patient/1", "4")
    assert at == (None if second is None else datetime(2026, 3, 1, 12, 0, second, tzinfo=UTC))


def test_a_deletion_without_a_version_is_known_by_its_moment() -> None:
    """An update without a version is not."""
    assert [(one.reference, one.version) for one in written("DELETE", {"date": DATE})] == [("Patient/1", "")]
    assert written("DELETE", {}) == written("PUT", {"date": DATE}) == ()
