"""The Bundle that answers a batch or transaction: one response for each entry, in their order."""

from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, Final

import orjson

from engine.interchange.bundles.step import Kind
from engine.interchange.exact import write_json
from engine.interchange.exchange import Answer

Json = Any

OUTCOME: Final = b'{"resourceType":"OperationOutcome"'


def write_answers(bundle_id: str, kind: Kind, answers: list[Answer]) -> bytes:
    """Return the Bundle of some answers."""
    bundle: dict[str, Json] = {"resourceType": "Bundle", "id": bundle_id, "type": f"{kind}-response"}
    if answers:
        bundle["entry"] = [_entry(one) for one in answers]
    return write_json(bundle)


def _entry(answer: Answer) -> Json:
    headers = dict(answer.headers)
    place = headers.get("location") or headers.get("content-location", "")
    made: dict[str, Json] = {"fullUrl": place} if place else {}
    response: dict[str, Json] = {"status": f"{answer.status} {HTTPStatus(answer.status).phrase}"}
    if place:
        response["location"] = place
    if "etag" in headers:
        response["etag"] = headers["etag"]
    if "last-modified" in headers:
        response["lastModified"] = parsedate_to_datetime(headers["last-modified"]).isoformat()
    if answer.body.startswith(OUTCOME):
        response["outcome"] = orjson.Fragment(answer.body)
    elif answer.body:
        made["resource"] = orjson.Fragment(answer.body)
    return {**made, "response": response}
