"""The Bundle that answers a batch or transaction: one response for each entry, in their order."""

from email.utils import parsedate_to_datetime
from functools import lru_cache
from http.client import responses
from typing import Final

import orjson

from engine.fhir.json import JsonObject
from engine.interchange.core.exchange import HttpAnswer
from engine.interchange.core.reply import HISTORY
from engine.interchange.kernel.exact import write_json
from engine.interchange.web.bundles.step import BundleKind, BundleStep

OUTCOME: Final = b'{"resourceType":"OperationOutcome"'


def write_answers(bundle_id: str, kind: BundleKind, base: str, answered: list[tuple[BundleStep, HttpAnswer]]) -> bytes:
    """Return the Bundle of some steps' answers; `base` is the address of the base."""
    bundle: JsonObject = {"resourceType": "Bundle", "id": bundle_id, "type": f"{kind}-response"}
    if answered:
        bundle["entry"] = [_entry(base, step, answer) for step, answer in answered]
    return write_json(bundle)


def _entry(base: str, step: BundleStep, answer: HttpAnswer) -> JsonObject:
    headers = dict(answer.headers)
    place = headers.get("location") or headers.get("content-location", "")
    answer_entry: JsonObject = {"fullUrl": unversioned(place)} if place else {}
    response: JsonObject = {"status": f"{answer.status} {responses[answer.status]}"}
    if place:
        response["location"] = place
    if "etag" in headers:
        response["etag"] = headers["etag"]
    if "last-modified" in headers:
        response["lastModified"] = _instant(headers["last-modified"])
    if answer.body.startswith(OUTCOME):
        response["outcome"] = orjson.Fragment(answer.body)
    elif answer.body:
        answer_entry |= {**_address(base, step), "resource": orjson.Fragment(answer.body)}
    return {**answer_entry, "response": response}


def unversioned(place: str) -> str:
    """Return the address of a resource from that of one of its versions."""
    return place.partition(f"/{HISTORY}/")[0]


def _address(base: str, step: BundleStep) -> JsonObject:
    """Return the fullUrl of the step's resource, without a version; {} for a search or history."""
    parts = step.path.split("/")
    return {"fullUrl": "/".join((base, *parts[:2]))} if len(parts) in {2, 4} else {}


@lru_cache(maxsize=64)
def _instant(moment: str) -> str:
    """Return an HTTP date as a FHIR instant."""
    return parsedate_to_datetime(moment).isoformat()
