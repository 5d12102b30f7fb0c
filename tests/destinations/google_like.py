"""A scripted server with the ways of Google Cloud Healthcare (v1), each a switch, each with its public source."""

import asyncio
from typing import Any, Final
from urllib.parse import parse_qs

import orjson
from aiohttp import web

from engine.fhir.patient_compartment import patients_of
from tests.deliver.fake_chart import BASE
from tests.destinations.server_like import ServerLike

# Google's canonical codes of the errors that are no OperationOutcome (google.rpc.Code, and their HTTP mapping).
STATUSES: Final = {400: "INVALID_ARGUMENT", 409: "ABORTED", 429: "RESOURCE_EXHAUSTED", 503: "UNAVAILABLE"}

LOCKED: Final = "operation_too_costly: aborted due to lock contention, resource type PATIENT"


class GoogleLike(ServerLike):
    """Transactions are taken, ids of a client are taken (`enableUpdateCreate`).

    `identifiers_only`: a condition by anything but `identifier` is answered 400 (REST reference of v1,
    `fhir.conditionalUpdate`: "limited to searching by resource identifier"). `locks`: a bundle about a patient of whom
    another bundle is under way (`under_way`) is refused with `refusal` (409 or 429; its page "Troubleshooting":
    transaction bundles contend for locks and are rejected for a while); `names_locks`: such an answer says so (its page
    "Data ingestion throughput best practices": 429, `operation_too_costly`, "lock contention"), else it is as one of a
    quota. `bundle_gate` holds bundles under way until it is set. `refused_bundles`: how many bundles to come are
    refused, whoever else is at work; `bundles`: how many came. `plain_errors`: these
    errors, and those of conditions, are Google's JSON and no OperationOutcome (REST reference of v1: "a generic GCP
    error might be returned instead"). `most_entries`: a bundle with more is answered 400 (quotas: 4,500).
    """

    def __init__(self) -> None:
        super().__init__("Google Cloud Healthcare API")
        self.identifiers_only = True
        self.locks = True
        self.refusal = 429
        self.names_locks = True
        self.refused_bundles = 0
        self.bundles = 0
        self.plain_errors = True
        self.most_entries = 4500
        self.refusals = 0
        self.bundle_gate = asyncio.Event()
        self.bundle_gate.set()
        self.under_way = asyncio.Event()
        self._locked: set[str] = set()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        if request.method != "POST" or request.path.rstrip("/") != BASE:
            return await super()._handle(request)
        entries = orjson.loads(await request.read()).get("entry") or ()
        self.bundles += 1
        patients = {patient for entry in entries for patient in patients_of(entry.get("resource") or {})}
        if self.refused_bundles > 0 or (self.locks and patients & self._locked):
            self.refused_bundles = max(0, self.refused_bundles - 1)
            self.refusals += 1
            said = LOCKED if self.names_locks else "quota exceeded"
            return self._error(self.refusal, "too-costly" if self.names_locks else "throttled", said)
        self._locked |= patients
        self.under_way.set()
        try:
            await self.bundle_gate.wait()
            return await super()._handle(request)
        finally:
            self._locked -= patients

    def _answer(self, request: web.Request, path: str, body: bytes) -> web.Response:
        condition = request.headers.get("If-None-Exist")
        if condition is None and request.method == "PUT":
            condition = request.query_string or None
        if condition is not None and not self._takes(condition):
            return self._error(400, "invalid")
        return super()._answer(request, path, body)

    def _takes(self, condition: str) -> bool:
        return not self.identifiers_only or set(parse_qs(condition, keep_blank_values=True)) == {"identifier"}

    def _transaction(self, bundle: dict[str, Any]) -> web.Response:
        conditions = [entry["request"].get("ifNoneExist", "identifier=x") for entry in bundle["entry"]]
        if len(bundle["entry"]) > self.most_entries or not all(self._takes(condition) for condition in conditions):
            return self._error(400, "invalid")
        return super()._transaction(bundle)

    def _error(self, status: int, code: str, said: str = "") -> web.Response:
        if not self.plain_errors:
            return _outcome(status, code, said)
        message = f"SENTINEL-OF-A-PATIENT {said}".strip()
        error = {"code": status, "message": message, "status": STATUSES.get(status, "UNKNOWN")}
        return web.Response(status=status, body=orjson.dumps({"error": error}), content_type="application/json")


def _outcome(status: int, code: str, said: str) -> web.Response:
    text, _, diagnostics = said.partition(": ")
    about = f"SENTINEL-OF-A-PATIENT {diagnostics}".strip()
    issue = {"severity": "error", "code": code, "details": {"text": text}, "diagnostics": about}
    outcome = {"resourceType": "OperationOutcome", "issue": [issue]}
    return web.Response(status=status, body=orjson.dumps(outcome), content_type="application/fhir+json")
