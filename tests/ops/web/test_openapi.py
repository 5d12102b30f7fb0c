"""The description of the API: valid by its own standard, and true of what a running engine takes and gives."""

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx
import jsonschema_rs
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from engine.ops.access.actor import Permission
from engine.ops.operations.table import ALL
from engine.ops.sender.line import send_messages
from engine.ops.web.api.openapi import described, endpoints
from tests.flow.rig import running
from tests.ops.web.conftest import DELIVERED, FEED, HELD, REFUSED, STATES, WAITING, Site, alike, message, start

CASES = "tests: [{case: one, event: A28, message: 'PID|1||1^^^RVB^MR', expect: {rule: other}}]"
NO_BIRTH_DATE = "resource: Patient\nextends: shipped/patient\nelements: {birthDate: }\n"
# Held as well, by itself.
LONELY = 7
# In this order, by a token of this role: (act, what is given).
CALLS: tuple[tuple[str, str, Mapping[str, Any]], ...] = (
    ("operator", "messages.list", {"state": "held", "limit": 2}),
    ("operator", "messages.search", {"patient": "RB-2", "limit": 1}),
    ("operator", "messages.show", {"entry": DELIVERED}),
    ("operator", "messages.show", {"entry": HELD}),
    ("operator", "messages.show", {"entry": WAITING}),
    ("operator", "messages.show", {"entry": REFUSED}),
    ("operator", "patients.find", {"patient": "RB-2"}),
    ("operator", "patients.search", {"text": "b-2"}),
    ("viewer", "messages.span", {}),
    ("operator", "patients.show", {"entry": HELD, "limit": 2}),
    ("viewer", "duplicates.list", {"show": "all"}),
    ("viewer", "duplicates.count", {}),
    ("operator", "duplicates.records", {"entries": [1]}),
    ("viewer-phi", "messages.named", {"entries": [DELIVERED, HELD]}),
    ("viewer", "messages.facts", {"entry": HELD}),
    ("viewer-phi", "messages.raw", {"entry": HELD}),
    ("operator", "messages.explain", {"entry": DELIVERED}),
    ("operator", "messages.explain", {"entry": REFUSED, "field": "PID-5"}),
    ("operator", "messages.export", {"reason": "ticket 4711", "filter": {"state": "delivered"}}),
    ("viewer", "messages.counts", {"since": "1h"}),
    ("viewer", "messages.throughput", {"since": "1h", "points": 6}),
    ("viewer", "charts.show", {"span": "24h"}),
    ("viewer", "stats", {}),
    ("viewer", "codes.unmapped", {}),
    ("operator", "codes.values", {"place": "PID-10"}),
    ("viewer", "lanes.list", {}),
    ("viewer", "lanes.show", {"entry": HELD}),
    ("operator", "messages.rehearse", {"entry": DELIVERED}),
    ("operator", "messages.rehearse", {"entry": DELIVERED, "set": {"PID-5.1": "Quint"}}),
    ("operator", "messages.edit", {"entry": DELIVERED, "set": {"PID-5.1": "Quint"}, "reason": "typo"}),
    ("operator", "messages.replay", {"entry": DELIVERED, "force": True}),
    ("operator", "messages.retry", {"entry": LONELY}),
    ("operator", "messages.release", {"entry": HELD}),
    ("operator", "messages.discard", {"entry": WAITING, "reason": "a test"}),
    ("operator", "replays.plan", {"state": "delivered"}),
    # So slow that it has not ended when it is resumed.
    ("operator", "replays.start", {"state": "delivered", "rate": 0.1}),
    ("operator", "replays.progress", {"run": 1}),
    ("operator", "replays.list", {"limit": 5}),
    ("operator", "replays.pause", {"run": 1}),
    ("operator", "replays.resume", {"run": 1}),
    ("operator", "replays.stop", {"run": 1}),
    ("operator", "kept.plan", {"channel": "riverbend-adt", "since": "1h"}),
    ("operator", "lanes.plan", {"reason": "missing-required"}),
    ("operator", "lanes.release", {"reason": "missing-required"}),
    ("author", "mappings.files", {}),
    ("author", "mappings.file", {"path": "shipped/resources/patient.yaml"}),
    ("author", "mappings.try", {"message": message("TRY", "RB-1").decode(), "edited": {"tables/x.yaml": "a: ["}}),
    ("operator", "mappings.try", {"message": message("TRY", "RB-1").decode(), "channel": "riverbend-adt"}),
    ("operator", "lanes.retry", {"entries": [HELD]}),
    ("operator", "lanes.discard", {"entries": [HELD], "because": "a test"}),
    ("author", "mappings.check", {"edited": {"resources/patient.yaml": "resource: Patient"}}),
    ("author", "mappings.complete", {"path": "adt.yaml", "text": "mapping: adt\nev", "line": 2, "column": 3}),
    ("author", "mappings.explain-word", {"path": "shipped/resources/patient.yaml", "text": "a: b", "message": ""}),
    ("author", "mappings.run-cases", {"edited": {"tests/mine.yaml": CASES}}),
    ("author", "mappings.publications", {}),
    ("operator", "messages.share", {"entry": 1}),
    ("author", "mappings.shared", {}),
    ("operator", "messages.unshare", {"shared": 1}),
    ("operator", "mappings.compare", {"edited": {"resources/patient.yaml": NO_BIRTH_DATE}, "limit": 5}),
    ("viewer", "alive", {}),
    ("viewer", "metrics", {}),
    ("viewer", "reasons", {"kind": "held"}),
    ("operator", "destinations.pause", {"destination": "interchange", "reason": "upgrade"}),
    ("viewer", "destinations.list", {}),
    ("viewer", "destinations.settings", {"destination": "interchange"}),
    ("operator", "destinations.resume", {"destination": "interchange"}),
    ("operator", "destinations.retry", {"destination": "interchange"}),
    ("operator", "channels.stop", {"channel": "riverbend-adt"}),
    ("operator", "channels.drain", {"channel": "riverbend-adt"}),
    ("operator", "channels.start", {"channel": "riverbend-adt"}),
    ("operator", "channels.allow-merge", {"channel": "riverbend-adt"}),
    ("viewer", "channels.list", {}),
    ("operator", "reload", {}),
    ("viewer", "alerts.list", {"all": True}),
    ("viewer", "status.show", {}),
    ("operator", "alerts.acknowledge", {"alert": 1}),
    ("auditor", "audit.list", {"act": "messages.", "limit": 100}),
    ("auditor", "audit.anchor", {}),
    ("auditor", "audit.verify", {}),
    ("auditor", "audit.export", {"format": "csv"}),
)
# Asked for in tests of their own: records to choose from, an installation that allows it.
ELSEWHERE = {
    "messages.matches", "messages.resolve", "duplicates.show", "duplicates.decide", "mappings.publish",
    "mappings.take-back", "kept.start",
}  # fmt: skip


def closed(schema: Any) -> Any:
    """Return a schema by which an object has no field but those that are described."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: closed(one) for name, one in schema.items()}
    return {"additionalProperties": False, **made} if isinstance(schema.get("properties"), dict) else made


class Api:
    """The API of a running engine, asked by its own description."""

    def __init__(self, site: Site, http: httpx.AsyncClient, description: Mapping[str, Any]) -> None:
        self.site = site
        self.http = http
        self.components = {"schemas": closed(description["components"]["schemas"])}
        self.operations = {
            operation["operationId"]: (method.upper(), path, operation)
            for path, methods in description["paths"].items()
            for method, operation in methods.items()
        }
        self.tokens: dict[str, str] = {}

    async def ask(self, role: str, act: str, given: Mapping[str, Any]) -> httpx.Response:
        """Do an act at its address, with what is given where the description says it belongs."""
        if role not in self.tokens:
            self.tokens[role] = await self.site.token(role, f"openapi-{role}")
        method, path, operation = self.operations[act]
        rest = dict(given)
        for parameter in operation.get("parameters", []):
            if parameter["in"] == "path":
                path = path.replace("{" + parameter["name"] + "}", str(rest.pop(parameter["name"])))
        carried: dict[str, Any] = {"params": {k: str(v).lower() if v is True else v for k, v in rest.items()}}
        if method == "POST":
            self._check(operation["requestBody"]["content"]["application/json"]["schema"], rest, act)
            carried = {"json": rest}
        return await self.http.request(
            method, path, headers={"authorization": f"Bearer {self.tokens[role]}"}, **carried
        )

    async def done(self, role: str, act: str, given: Mapping[str, Any]) -> Any:
        """Do an act, hold its answer against the schema that it declares, and return it."""
        answer = await self.ask(role, act, given)
        assert answer.status_code == 200, (act, answer.text)
        responses = self.operations[act][2]["responses"]
        value = answer.json()
        self._check(closed(responses["200"]["content"]["application/json"]["schema"]), value, act)
        return value

    def _check(self, schema: Mapping[str, Any], value: Any, act: str) -> None:
        validator = jsonschema_rs.Draft202012Validator({"components": self.components, **schema}, validate_formats=True)
        assert [f"{act}: {error.instance_path} {error.message}" for error in validator.iter_errors(value)] == []


@pytest.fixture(scope="module")
async def api(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Api]:
    """An engine of this module's own, and a client that reads its description."""
    with socket.socket() as place:  # the same port after a stop and a start
        place.bind(("127.0.0.1", 0))
        listen = {"mllp": {"host": "127.0.0.1", "port": place.getsockname()[1]}}
    async with running(tmp_path_factory.mktemp("openapi"), listen=listen) as rig:
        site = await start(rig)
        await send_messages(*await rig.address(), [*FEED, message("C9", "RB-9", born="")])
        await rig.until(lambda rows: [row.state for row in rows] == [*STATES.values(), "held"])
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{site.port}", trust_env=False, timeout=30) as http:
            token = await site.token("viewer", "reader")
            described_at = await http.get("/api/v1/openapi.json", headers={"authorization": f"Bearer {token}"})
            yield Api(site, http, described_at.json())


def test_the_description_is_valid() -> None:
    """The validator of OpenAPI 3.1 finds nothing; described is every act that a token may do, and no other."""
    description = described(endpoints(ALL))
    assert [str(error) for error in OpenAPIV31SpecValidator(description).iter_errors()] == []
    names = {act.name for act in ALL if act.permission not in {Permission.USERS, Permission.CARE}}
    shown = {method["operationId"] for methods in description["paths"].values() for method in methods.values()}
    assert names == shown
    assert names - {act for _role, act, _given in CALLS} == ELSEWHERE


async def test_every_answer_is_the_one_that_is_described(api: Api) -> None:
    """Each operation, by a role that may: what comes back has every field that is declared, and no other."""
    await _alerted(api)
    for role, act, given in CALLS:
        await api.done(role, act, given)


async def test_what_is_chosen_from_is_the_one_that_is_described(api: Api) -> None:
    """Two records that could be meant, and the answer to the choice."""
    ids = [await alike(api.site) for _ in range(2)]
    entry = len(api.site.rig.rows()) + 1
    await send_messages(*await api.site.rig.address(), [message("TWO", "FL-7", "Alike^Marisol")])
    await api.site.rig.until(lambda rows: [row.reason for row in rows[entry - 1 :]] == ["multiple-matches"])
    found = await api.done("operator", "messages.matches", {"entry": entry})
    assert ({one["patient"] for one in found["matches"]}, found["next_step"]) == (set(ids), "")
    given = {"entry": entry, "destination": found["destination"], "patient": ids[0]}
    await api.done("operator", "messages.resolve", given)


@pytest.mark.parametrize(
    ("act", "given"),
    [
        ("lanes.release", {"reasn": "missing-required"}),
        ("replays.start", {"state": "delivered", "chan": "none"}),
        ("messages.search", {"patiant": "RB-1"}),
        ("messages.export", {"reason": "x", "filter": {"patiant": "RB-1"}}),
    ],
)
async def test_a_name_that_means_nothing_is_refused(api: Api, act: str, given: Mapping[str, Any]) -> None:
    """A mistyped filter must not mean everything: 400 with the names that are taken, and nothing is done."""
    runs = await api.site.act("replays.list")
    method, path, _ = api.operations[act]
    token = await api.site.token("operator", f"slip-{act}-{len(str(given))}")
    answer = await api.http.request(method, path, json=given, headers={"authorization": f"Bearer {token}"})
    assert answer.status_code == 400
    assert "is not taken here" in answer.json()["detail"]
    assert await api.site.act("replays.list") == runs


@pytest.mark.parametrize(
    ("act", "given"),
    [
        ("messages.search", {"patient": {"a": 1}}),
        ("messages.search", {"limit": True}),
        ("replays.plan", {"entries": [True]}),
        ("replays.plan", {"entries": "1"}),
        ("replays.plan", {"force": "yes"}),
        ("replays.start", {"entries": [1], "rate": True}),
        ("replays.start", {"entries": [1], "rate": 1e-300}),
        ("messages.export", {"reason": "x", "filter": [1]}),
        ("messages.export", {"reason": "x", "filter": {"state": 5}}),
        ("alerts.acknowledge", {"alert": True}),
        ("destinations.pause", {"destination": "interchange", "reason": ["x"]}),
    ],
)
async def test_what_is_of_another_type_is_refused(api: Api, act: str, given: Mapping[str, Any]) -> None:
    """What the description says is held to: 400 (422 beyond a bound), with the field's name and without its value."""
    runs = await api.site.act("replays.list")
    method, path, _ = api.operations[act]
    if "operator" not in api.tokens:
        api.tokens["operator"] = await api.site.token("operator", "openapi-operator")
    answer = await api.http.request(
        method, path, json=given, headers={"authorization": f"Bearer {api.tokens['operator']}"}
    )
    assert answer.status_code in {400, 422}, answer.text
    assert await api.site.act("replays.list") == runs


async def _alerted(api: Api) -> None:
    """Wait until the engine has opened an alert, as it looks only now and then."""
    async with asyncio.timeout(60):
        while not await api.site.act("alerts.list"):  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.2)
