"""The requests in a Bundle as they were sent, and the Bundle that answers them: one response for each."""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from enum import StrEnum
from functools import lru_cache
from http.client import responses
from typing import Final

import orjson

from engine.fhir.json import Json, JsonObject
from engine.fhir.schema import FhirVersion
from engine.interchange.core.exchange import HISTORY, HttpAnswer
from engine.interchange.kernel.exact import NO_JSON, UnfitJsonError, read_strictly, write_json
from engine.interchange.kernel.outcome import Category, RefusedError, refuse

MOST: Final = 1_000
# The conditions of an entry and the headers that they correspond to.
HEADERS: Final = {
    "ifNoneMatch": "if-none-match",
    "ifModifiedSince": "if-modified-since",
    "ifMatch": "if-match",
    "ifNoneExist": "if-none-exist",
}
WITH_RESOURCE: Final = frozenset({"POST", "PUT", "PATCH"})


class BundleKind(StrEnum):
    """Bundle.type: entries of a batch are independent, those of a transaction succeed or fail together."""

    BATCH = "batch"
    TRANSACTION = "transaction"


@dataclass(frozen=True, slots=True)
class BundleStep:
    """One request of a Bundle: its index, its address relative to the base, and its resource or patch."""

    number: int
    full_url: str
    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: Json


def read_bundle(body: Json, version: FhirVersion, base: str) -> tuple[BundleKind, tuple[BundleStep, ...]]:
    """Return the requests in a Bundle; RefusedError (400) if it is malformed, too long, or of another type."""
    if not isinstance(body, dict) or body.get("resourceType") != "Bundle":
        raise refuse(Category.STRUCTURE, "The body must be a Bundle.", location="Bundle")
    if body.get("type") not in list(BundleKind):
        raise refuse(Category.BAD_VALUE, "The Bundle must be a batch or a transaction.", location="Bundle.type")
    entries = body.get("entry", [])
    if not isinstance(entries, list):
        raise refuse(Category.STRUCTURE, "entry must be a list.", location="Bundle.entry")
    if len(entries) > MOST:
        raise refuse(Category.TOO_COSTLY, f"A Bundle may have at most {MOST} entries.", location="Bundle.entry")
    return BundleKind(body["type"]), tuple(_step(number, entry, version, base) for number, entry in enumerate(entries))


def placed(refusal: RefusedError, number: int) -> RefusedError:
    """Return the refusal of an entry with its locations relative to the Bundle."""
    issues = tuple(issue._replace(location=_place(issue.location, number)) for issue in refusal.issues)
    return RefusedError(refusal.category, issues, refusal.headers)


def _place(location: str, number: int) -> str:
    entry = f"Bundle.entry[{number}]"
    if location.startswith("Bundle.entry["):
        return location
    if location[:1].isupper():
        _, dot, rest = location.partition(".")
        return f"{entry}.resource{dot}{rest}"
    return f"{entry}.request"


def _step(number: int, entry: JsonObject, version: FhirVersion, base: str) -> BundleStep:
    where = f"Bundle.entry[{number}]"
    asked = entry.get("request") if isinstance(entry, dict) else None
    if not isinstance(asked, dict):
        raise refuse(Category.REQUIRED, "The entry has no request.", location=f"{where}.request")
    for name in ("method", "url"):
        if not isinstance(asked.get(name), str):
            raise refuse(Category.REQUIRED, f"The request has no {name}.", location=f"{where}.request.{name}")
    texts = {name: asked[name] for name in HEADERS if name in asked}
    if not all(isinstance(text, str) for text in (*texts.values(), entry.get("fullUrl", ""))):
        raise refuse(Category.STRUCTURE, "A condition or address must be a string.", location=where)
    method = asked["method"]
    if method == "PATCH" and version is FhirVersion.STU3:
        raise refuse(Category.UNSUPPORTED, "STU3 has no PATCH in a Bundle.", location=f"{where}.request.method")
    path, _, query = asked["url"].removeprefix(f"{base}/").removeprefix("/").partition("?")
    body = entry.get("resource") if method in WITH_RESOURCE else None
    if method == "PATCH":
        body = _patch(body, f"{where}.resource")
    headers = {HEADERS[name]: text for name, text in texts.items()}
    return BundleStep(number, entry.get("fullUrl", ""), method, path, query, headers, body)


def _patch(binary: Json, where: str) -> Json:
    """Return the JSON Patch in a Binary."""
    if not isinstance(binary, dict) or binary.get("contentType") != "application/json-patch+json":
        text = "A patch is a Binary of contentType application/json-patch+json; FHIRPath Patch is not taken."
        raise refuse(Category.STRUCTURE, text, location=where)
    try:
        return read_strictly(base64.b64decode(binary.get("data", ""), validate=True))
    except UnfitJsonError as error:
        raise refuse(Category.INVALID, str(error), location=f"{where}.data") from None
    except (*NO_JSON, binascii.Error, TypeError) as error:
        raise refuse(Category.STRUCTURE, "data must be a JSON Patch in base64.", location=f"{where}.data") from error


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
