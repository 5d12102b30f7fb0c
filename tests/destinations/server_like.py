"""What the doubles of other makers' servers have in common: what they lack, and how they let writers meet."""

import asyncio
from typing import Any, Final

import orjson
from aiohttp import web

from tests.deliver.fake_chart import BASE, FakeChart
from tests.deliver.fake_fhir import outcome_of

TYPES: Final = (
    "Encounter",
    "Practitioner",
    "Location",
    "Organization",
    "Account",
    "Condition",
    "AllergyIntolerance",
    "Coverage",
)


class ServerLike(FakeChart):
    """No `$merge`; numbers need not be unique, and a search by an old number finds the record that has it.

    `transactions`: they are stated and taken. `update_create`: an update of an id that is not there creates it, as the
    statement says. `races` (`race`): how many conditional creates judge their condition before the first of them
    writes, so that each creates; 0: they come one after another. `most_entries`: a transaction with more is answered
    `too_many`; 0: any number is taken.
    """

    def __init__(
        self, software: str = "", version: str = "", *, transactions: bool = True, update_create: bool | None = True
    ) -> None:
        super().__init__()
        self.merges = False
        self.unique_mrn = False
        self.survivor_for_old_numbers = False
        self.transactions = transactions
        self.update_create = update_create
        self.software = {"name": software} | ({"version": version} if version else {}) if software else {}
        self.races = 0
        self.most_entries = 0
        self.too_many = 400
        self._barrier: asyncio.Barrier | None = None

    def race(self, creates: int) -> None:
        """Let so many conditional creates judge their conditions before any of them writes."""
        self.races = creates
        self._barrier = asyncio.Barrier(creates)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        condition = request.headers.get("If-None-Exist")
        if self.races and request.method == "POST" and condition is not None and self._barrier is not None:
            type_ = request.path.removeprefix(f"{BASE}/")
            if not self._matching(type_, condition):
                body = orjson.loads(await request.read())
                self.requests.append(f"POST {type_}")
                await self._barrier.wait()
                self.races -= 1
                return self._create(body, None) if type_ == "Patient" else self._made(type_, body, None)
        return await super()._handle(request)

    def _statement(self) -> dict[str, Any]:
        statement = super()._statement()
        listed = statement["rest"][0]["resource"]
        listed += [{**listed[0], "type": type_, "operation": []} for type_ in TYPES]
        return statement

    def _matching(self, type_: str, condition: str) -> list[dict[str, Any]]:
        """Return what a condition finds."""
        return self._search(condition) if type_ == "Patient" else self._look(type_, condition)

    def _transaction(self, bundle: dict[str, Any]) -> web.Response:
        if 0 < self.most_entries < len(bundle["entry"]):
            return outcome_of(self.too_many, "too-costly")
        return super()._transaction(bundle)
