"""A scripted server with the ways of Azure Health Data Services (microsoft/fhir-server), each a switch."""

import asyncio
from typing import Any

import orjson
from aiohttp import web

from tests.deliver.fake_chart import BASE, FakeChart
from tests.deliver.fake_fhir import outcome_of


class AzureLike(FakeChart):
    """No `$merge`, transactions are taken, ids of a client are taken; numbers need not be unique.

    `races`: how many conditional creates judge their condition before the first of them writes, so that each creates
    (microsoft/fhir-server#1382); 0: they come one after another. `ignores_if_match`: an update by a search ignores
    If-Match (microsoft/fhir-server#4647); one by id honours it. `bare_matches`: a conditional create that finds its
    record is answered 200 without a body or a Location, in a bundle too (SanteonNL/orca#357). `most_entries`: a bundle
    with more is answered 400 (microsoft/fhir-server, BundleEntryLimitExceededException; 500 by default).
    """

    def __init__(self) -> None:
        super().__init__()
        self.merges = False
        self.unique_mrn = False
        self.transactions = True
        self.update_create = True
        self.software = {"name": "Microsoft FHIR Server", "version": "4.0.500"}
        self.races = 0
        self.ignores_if_match = True
        self.bare_matches = True
        self.most_entries = 500
        self._barrier: asyncio.Barrier | None = None

    def race(self, creates: int) -> None:
        """Let so many conditional creates judge their conditions before any of them writes."""
        self.races = creates
        self._barrier = asyncio.Barrier(creates)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        condition = request.headers.get("If-None-Exist")
        if self.races and request.method == "POST" and condition is not None and self._barrier is not None:
            type_ = request.path.removeprefix(f"{BASE}/")
            found = self._search(condition) if type_ == "Patient" else self._look(type_, condition)
            if not found:
                await self._barrier.wait()
                self.races -= 1
                body = orjson.loads(await request.read())
                self.requests.append(f"POST {type_}")
                return self._create(body, None) if type_ == "Patient" else self._made(type_, body, None)
        return await super()._handle(request)

    def _answer(self, request: web.Request, path: str, body: bytes) -> web.Response:
        if request.method == "PUT" and request.query_string:
            return self._conditional_update(request, path, orjson.loads(body))
        answer = super()._answer(request, path, body)
        matched = request.method == "POST" and answer.status == 200 and "If-None-Exist" in request.headers
        return web.Response(status=200) if matched and self.bare_matches else answer

    def _conditional_update(self, request: web.Request, type_: str, body: dict[str, Any]) -> web.Response:
        query = request.query_string
        found = self._search(query) if type_ == "Patient" else self._look(type_, query)
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

    def _transaction(self, bundle: dict[str, Any]) -> web.Response:
        if len(bundle["entry"]) > self.most_entries:
            return outcome_of(400, "too-costly")
        return super()._transaction(bundle)

    def _in_bundle(self, answer: web.Response, target: str, sent: dict[str, Any]) -> dict[str, Any]:
        if answer.status == 200 and "id" not in sent and self.bare_matches:
            return {"response": {"status": "200"}}
        return super()._in_bundle(answer, target, sent)
