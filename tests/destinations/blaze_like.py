"""A scripted server with the ways of Blaze, each a switch, each with its public source."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from aiohttp import web

from tests.deliver.fake_chart import references_in
from tests.deliver.fake_fhir import outcome_of
from tests.destinations.server_like import ServerLike


class BlazeLike(ServerLike):
    """Ids of a client are taken; writes come one after another, so that conditional creates never race.

    Sources are of samply/blaze. `strict`: If-Match on an id that is not there is answered 412, as each other version is
    (modules/db/src/blaze/db/node/tx_indexer/verify.clj). `whole`: a reference to what is not there is answered 409, to
    patients too (the same file, "Referential integrity violated"). `resolves_matches`: a transaction may refer to what
    its condition matched; else that is answered 409 (docs/api/interaction/create.md; samply/blaze#433). `keeps_equal`:
    an update that changes nothing makes no version (docs/api/interaction/update.md).
    """

    def __init__(self) -> None:
        super().__init__("Blaze", "1.3.0")
        self.strict = True
        self.whole = True
        self.resolves_matches = False
        self.keeps_equal = True

    def _dangling(self, content: dict[str, Any], promised: AbstractSet[str]) -> list[str]:
        people = {f"Patient/{logical_id}" for logical_id in self.patients}
        named = [one for one in references_in(content) if one.startswith("Patient/") and one not in people]
        return [*super()._dangling(content, promised), *(named if self.whole else ())]

    def _written(
        self, request: Any, path: str, content: dict[str, Any], promised: AbstractSet[str] = frozenset()
    ) -> web.Response:
        return self._told_apart(super()._written(request, path, content, promised))

    def _done(self, entry: dict[str, Any], target: str, promised: AbstractSet[str]) -> web.Response:
        return self._told_apart(super()._done(entry, target, promised))

    def _told_apart(self, answer: web.Response) -> web.Response:
        return outcome_of(409, "conflict") if self.whole and answer.status == 422 else answer

    def _put_resource(self, request: Any, path: str, content: dict[str, Any]) -> web.Response:
        if self.strict and request.headers.get("If-Match") and path not in self.chart:
            return outcome_of(412, "conflict")
        return super()._put_resource(request, path, content)

    def _put(self, logical_id: str, body: dict[str, Any], headers: Mapping[str, str]) -> web.Response:
        if self.strict and headers.get("If-Match") and logical_id not in self.patients:
            return outcome_of(412, "conflict")
        return super()._put(logical_id, body, headers)

    def _keep(self, reference: str, body: dict[str, Any]) -> None:
        if not (self.keeps_equal and _content(self.chart.get(reference, {})) == _content(body)):
            super()._keep(reference, body)

    def _store(self, logical_id: str, body: dict[str, Any]) -> None:
        if not (self.keeps_equal and _content(self.patients.get(logical_id, {})) == _content(body)):
            super()._store(logical_id, body)

    def _transaction(self, bundle: dict[str, Any]) -> web.Response:
        named = set(references_in([entry["resource"] for entry in bundle["entry"]]))
        for entry in bundle["entry"]:
            request = entry["request"]
            condition = request.get("ifNoneExist") if entry["fullUrl"] in named else None
            if condition and not self.resolves_matches and self._matching(request["url"], condition):
                return outcome_of(409, "conflict")
        return super()._transaction(bundle)


def _content(body: dict[str, Any]) -> dict[str, Any]:
    return {name: part for name, part in body.items() if name not in {"id", "meta"}}
