"""A scripted server with the ways of Azure Health Data Services (microsoft/fhir-server), each a switch."""

from typing import Any

import orjson
from aiohttp import web

from tests.deliver.fake_fhir import outcome_of
from tests.destinations.server_like import ServerLike


class AzureLike(ServerLike):
    """Transactions are taken, ids of a client are taken.

    `races`: conditional creates at one moment (microsoft/fhir-server#1382). `ignores_if_match`: an update by a search
    ignores If-Match (microsoft/fhir-server#4647); one by id honours it. `bare_matches`: a conditional create that finds
    its record is answered 200 without a body or a Location, in a bundle too (SanteonNL/orca#357). `most_entries`: a
    bundle with more is answered 400 (microsoft/fhir-server, BundleEntryLimitExceededException; 500 by default).
    """

    def __init__(self) -> None:
        super().__init__("Microsoft FHIR Server", "4.0.500")
        self.ignores_if_match = True
        self.bare_matches = True
        self.most_entries = 500

    def _answer(self, request: web.Request, path: str, body: bytes) -> web.Response:
        if request.method == "PUT" and request.query_string:
            return self._conditional_update(request, path, orjson.loads(body))
        answer = super()._answer(request, path, body)
        matched = request.method == "POST" and answer.status == 200 and "If-None-Exist" in request.headers
        return web.Response(status=200) if matched and self.bare_matches else answer

    def _conditional_update(self, request: web.Request, type_: str, body: dict[str, Any]) -> web.Response:
        query = request.query_string
        found = self._matching(type_, query)
        if len(found) > 1:
            return outcome_of(412, "multiple-matches")
        if not found:
            return self._create(body, None) if type_ == "Patient" else self._made(type_, body, None)
        tag = request.headers.get("If-Match", "")
        if tag and not self.ignores_if_match and tag != f'W/"{found[0]["meta"]["versionId"]}"':
            return outcome_of(412, "conflict")
        if type_ == "Patient":
            return self._update(found[0]["id"], body, None)
        self._keep(f"{type_}/{found[0]['id']}", body)
        return self._told(200, self.chart[f"{type_}/{found[0]['id']}"])

    def _in_bundle(self, answer: web.Response, target: str, sent: dict[str, Any]) -> dict[str, Any]:
        if answer.status == 200 and "id" not in sent and self.bare_matches:
            return {"response": {"status": "200"}}
        return super()._in_bundle(answer, target, sent)
