"""A scripted server with the ways of Medplum, each a switch, each with its public source."""

from typing import Any

from aiohttp import web

from tests.deliver.fake_chart import Habit
from tests.deliver.fake_fhir import outcome_of
from tests.destinations.server_like import ServerLike


class MedplumLike(ServerLike):
    """Ids are the server's (medplum/medplum, packages/server/src/fhir/metadata.ts: `updateCreate: false`).

    `races`: conditional creates at one moment (medplum/medplum#4878). `atomic`: the project has the feature
    `transaction-bundles`; without it each entry of a transaction is done for itself (its page "FHIR Batch Requests";
    packages/fhir-router/src/batch.ts, `isTransaction`). `most_strict`: an atomic transaction with a condition and more
    entries is answered 400 (batch.ts, `maxSerializableTransactionEntries`). `etags`: whether the answer to an entry has
    one (batch.ts, `buildBundleResponse`: status, location and outcome only).
    """

    def __init__(self) -> None:
        super().__init__("medplum", "5.1.0", update_create=False)
        self.atomic = True
        self.most_strict = 8
        self.etags = False

    def _transaction(self, bundle: dict[str, Any]) -> web.Response:
        conditions = any("ifNoneExist" in entry["request"] for entry in bundle["entry"])
        if self.atomic and conditions and len(bundle["entry"]) > self.most_strict:
            return outcome_of(400, "invalid")
        if not self.atomic:
            self.habits.add(Habit.TELLS_BY_ENTRY)
        return super()._transaction(bundle)

    def _in_bundle(self, answer: web.Response, target: str, sent: dict[str, Any]) -> dict[str, Any]:
        entry = super()._in_bundle(answer, target, sent)
        if not self.etags:
            entry["response"].pop("etag", None)
        return entry
