"""A scripted FHIR server over real HTTP: it keeps Patients, misbehaves as told, and logs what took effect, in order."""

import asyncio
import copy
import random
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar
from urllib.parse import parse_qs

import orjson
from aiohttp import web

JSON = "application/fhir+json"


@dataclass
class Step:
    """What happens to the next request of a method: answer a status, commit or not, and how the answer goes wrong."""

    method: str
    status: int = 0
    commit: bool = False
    hang: bool = False
    drop: bool = False
    body: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)
    slow_seconds: float = 0.0
    path: str = ""


class FakeFhir:
    """Patients by id with versions, conditional create, If-Match, identifier search; `$merge`, DELETE where it can."""

    KEPT: ClassVar = ("patients", "gone", "ids")

    def __init__(self) -> None:
        self.patients: dict[str, dict[str, Any]] = {}
        self.effects: list[str] = []
        self.requests: list[str] = []
        self.peers: set[object] = set()
        self.headers: list[dict[str, str]] = []
        self.bodies: list[Any] = []
        self.script: deque[Step] = deque()
        self.merges = True
        self.deletes = False
        self.cascades = False
        self.gone: set[str] = set()
        self.survivor_for_old_numbers = True
        self.unique_mrn = True
        self.honours_if_match = True
        self.update_create: bool | None = None
        self.honours_if_none_match = True
        self.versioning = "versioned-update"
        self.software: dict[str, str] = {}
        self.operations = ["merge"]
        self.merge_paths = {"Patient/$merge"}
        self.lookup_paths: set[str] = set()
        self.looked_up: list[str] = []
        self.takes_notices = False
        self.notices: list[dict[str, Any]] = []
        self.merge_sides = ("source-patient", "target-patient")
        self.media_type = JSON
        self.tokens = 0
        self.token_answers: deque[tuple[int, Any]] = deque()
        self.token_forms: list[dict[str, list[str]]] = []
        self.accepted_tokens: set[str] | None = None
        self.base = ""
        self.ids = {"p": 0, "r": 0}
        self.random_ids: random.Random | None = None
        self.before: Callable[[str, str], None] = lambda _method, _path: None
        self._runner: web.AppRunner | None = None
        self._released = asyncio.Event()

    async def start(self, ssl: Any = None, port: int = 0) -> "FakeFhir":
        """Listen on a free port, or on one that was had before."""
        app = web.Application(client_max_size=20_000_000)
        app.router.add_route("*", "/{rest:.*}", self._handle)
        self._runner = web.AppRunner(app, shutdown_timeout=0.2)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", port, ssl_context=ssl)
        await site.start()
        port = self._runner.addresses[0][1]
        self.base = f"{'https' if ssl else 'http'}://127.0.0.1:{port}/fhir/R4"
        return self

    async def stop(self) -> None:
        """Let go of what hangs and close."""
        self._released.set()
        if self._runner is not None:
            await self._runner.cleanup()

    def add(self, logical_id: str, **elements: Any) -> dict[str, Any]:
        """Put a Patient there without a log line."""
        body = {"resourceType": "Patient", "id": logical_id, "meta": {"versionId": "1"}, "active": True} | elements
        self.patients[logical_id] = body
        return body

    def touch(self, logical_id: str, **elements: Any) -> None:
        """Change a Patient as another client would."""
        self._store(logical_id, self.patients[logical_id] | elements)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        path = request.path.removeprefix("/fhir/R4/")
        self.before(request.method, path)
        self.peers.add(request.transport.get_extra_info("peername"))
        self.requests.append(f"{request.method} {path}{'?' + request.query_string if request.query_string else ''}")
        self.headers.append(dict(request.headers))
        self.bodies.append(body)
        if path == "/oauth/token":
            return self._token(body)
        step = self._step(request.method, path)
        if step is None:
            return self._refused(request) or self._answer(request, path, body)
        if step.slow_seconds:
            await asyncio.sleep(step.slow_seconds)
        answer: web.StreamResponse | None = None
        if step.commit or not (step.status or step.hang or step.drop or step.body is not None):
            answer = self._answer(request, path, body)
        if step.hang:
            await self._released.wait()
        if step.drop and request.transport is not None:
            request.transport.abort()
        if step.status or step.body is not None:
            return web.Response(
                status=step.status or 200, body=step.body or b"", headers={"Content-Type": JSON} | step.headers
            )
        return answer or web.Response(status=200)

    def _step(self, method: str, path: str) -> Step | None:
        for step in self.script:
            if step.method == method and step.path in path:
                self.script.remove(step)
                return step
        return None

    def _refused(self, request: web.Request) -> web.Response | None:
        if self.accepted_tokens is None:
            return None
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        return None if token in self.accepted_tokens else outcome_of(401, "login")

    def _token(self, body: bytes) -> web.Response:
        self.token_forms.append(parse_qs(body.decode()))
        self.tokens += 1
        status, answer = (
            self.token_answers.popleft()
            if self.token_answers
            else (200, {"access_token": f"t{self.tokens}", "expires_in": 3600})
        )
        if self.accepted_tokens is not None and status == 200:
            self.accepted_tokens.add(answer["access_token"])
        return web.Response(status=status, body=orjson.dumps(answer), content_type="application/json")

    def _answer(self, request: web.Request, path: str, body: bytes) -> web.Response:
        if path.endswith("metadata"):
            return answer_json(200, self._stated(path.removesuffix("metadata")))
        if "$" in path:
            return self._operation(request, path, body)
        if path == "Patient":
            return self._patients(request, body)
        logical_id = path.removeprefix("Patient/")
        if request.method == "PUT":
            return self._put(logical_id, orjson.loads(body), request.headers)
        return self._delete(logical_id) if request.method == "DELETE" else self._read(logical_id)

    def _operation(self, request: web.Request, path: str, body: bytes) -> web.Response:
        if path.endswith("DocumentReference/$p360-retrieve"):
            return self._look_up(request, path)
        if path == "$process-message":
            return self._notice(body)
        return self._merge(orjson.loads(body)) if path in self.merge_paths else outcome_of(404, "not-found")

    def _patients(self, request: web.Request, body: bytes) -> web.Response:
        if request.method == "POST":
            return self._create(orjson.loads(body), request.headers.get("If-None-Exist"))
        return answer_json(200, self._bundle(self._found(request, "Patient")))

    def _found(self, request: web.Request, _type: str) -> list[dict[str, Any]]:
        """Return what a search finds."""
        return self._search(request.query_string)

    def _read(self, logical_id: str) -> web.Response:
        held = self.patients.get(logical_id)
        gone = outcome_of(410, "deleted") if logical_id in self.gone else outcome_of(404, "not-found")
        return self._patient(200, held) if held else gone

    def _delete(self, logical_id: str) -> web.Response:
        if not self.deletes:
            return outcome_of(405, "not-supported")
        self.patients.pop(logical_id, None)
        self.gone.add(logical_id)
        self.effects.append(f"delete {logical_id}")
        return web.Response(status=204)

    def _look_up(self, request: web.Request, path: str) -> web.Response:
        if path not in self.lookup_paths or request.headers.get("Prefer") != "respond-async":
            return outcome_of(404, "not-supported")
        self.looked_up.append(request.query["patient"])
        handle = f"{self.base}/RequestResult/{request.query['patient']}"
        return web.Response(status=202, headers={"Content-Location": handle, "Location": handle})

    def _notice(self, body: bytes) -> web.Response:
        if not self.takes_notices:
            return outcome_of(404, "not-supported")
        self.notices.append(orjson.loads(body))
        return web.Response(status=200)

    def _stated(self, base: str) -> dict[str, Any]:
        statement = self._statement()
        if f"{base}DocumentReference/$p360-retrieve" in self.lookup_paths:
            statement["rest"][0]["operation"] = [{"name": "p360-retrieve"}]
        return statement

    def _statement(self) -> dict[str, Any]:
        operations = [
            {"name": name, "definition": f"{self.base}/OperationDefinition/Patient-it-{name}"}
            if "." in name
            else {"name": name, "definition": f"http://hl7.org/fhir/OperationDefinition/Patient-{name}"}
            for name in self.operations
        ]
        patient = {
            "type": "Patient",
            "versioning": self.versioning,
            "conditionalCreate": True,
            "operation": operations if self.merges else [],
        }
        if self.update_create is not None:
            patient["updateCreate"] = self.update_create
        if self.cascades:
            url = "https://site.example/fhir/StructureDefinition/cascade-delete"
            patient["extension"] = [{"url": url, "valueBoolean": True}]
        return {
            "resourceType": "CapabilityStatement",
            "software": self.software,
            "fhirVersion": "4.0.1",
            "rest": [{"mode": "server", "resource": [patient]}],
        }

    def _create(self, body: dict[str, Any], condition: str | None) -> web.Response:
        if condition is not None:
            found = self._search(condition)
            if len(found) > 1:
                return outcome_of(412, "multiple-matches")
            if found:
                return self._patient(200, found[0])
        if self.unique_mrn and self._taken(body, ""):
            return outcome_of(409, "duplicate", "duplicate-mrn")
        logical_id = self._new_id("Patient")
        self._store(logical_id, body)
        self.effects.append(f"create {logical_id}")
        answer = self._patient(201, self.patients[logical_id])
        answer.headers["Location"] = f"{self.base}/Patient/{logical_id}"
        return answer

    def _new_id(self, type_: str) -> str:
        if self.random_ids is not None:
            return f"{self.random_ids.getrandbits(64):016x}"
        letter = "p" if type_ == "Patient" else "r"
        self.ids[letter] += 1
        return f"{letter}{self.ids[letter]}"

    def snapshot(self) -> dict[str, Any]:
        """Return a backup: what is kept, and how far ids were given."""
        return copy.deepcopy({name: getattr(self, name) for name in self.KEPT})

    def restore(self, backup: dict[str, Any]) -> None:
        """Go back to a backup: what came since is gone, and its ids and versions are given once more."""
        for name, kept in copy.deepcopy(backup).items():
            setattr(self, name, kept)

    async def restart(self, backup: dict[str, Any]) -> None:
        """Stop, go back to a backup, and listen at the same address again: every connection ends."""
        assert self._runner is not None
        port = self._runner.addresses[0][1]
        await self._runner.cleanup()
        self.restore(backup)
        await self.start(port=port)

    def _put(self, logical_id: str, body: dict[str, Any], headers: Mapping[str, str]) -> web.Response:
        """Update, or create under the client's id where `update_create` says so (FHIR, http.html#upsert)."""
        there = logical_id in self.patients
        if there and self.honours_if_none_match and headers.get("If-None-Match") == "*":
            return outcome_of(412, "conflict")
        if there or not self.update_create:
            return self._update(logical_id, body, headers.get("If-Match"))
        if self.unique_mrn and self._taken(body, ""):
            return outcome_of(409, "duplicate", "duplicate-mrn")
        self._store(logical_id, body)
        self.gone.discard(logical_id)
        self.effects.append(f"create {logical_id}")
        answer = self._patient(201, self.patients[logical_id])
        answer.headers["Location"] = f"{self.base}/Patient/{logical_id}"
        return answer

    def _update(self, logical_id: str, body: dict[str, Any], tag: str | None) -> web.Response:
        held = self.patients.get(logical_id)
        if held is None:
            return outcome_of(404, "not-found")
        if self.honours_if_match and tag and tag != f'W/"{held["meta"]["versionId"]}"':
            return outcome_of(412, "conflict")
        if self.unique_mrn and self._taken(body, logical_id):
            return outcome_of(409, "duplicate", "duplicate-mrn")
        self._store(logical_id, body)
        self.effects.append(f"update {logical_id}")
        return self._patient(200, self.patients[logical_id])

    def _store(self, logical_id: str, body: dict[str, Any]) -> None:
        version = int(self.patients.get(logical_id, {}).get("meta", {}).get("versionId", "0")) + 1
        self.patients[logical_id] = body | {"id": logical_id, "meta": {"versionId": str(version)}}

    def _taken(self, body: dict[str, Any], logical_id: str) -> bool:
        numbers = {(item.get("system"), item.get("value")) for item in body.get("identifier", ())}
        return any(
            numbers & {(item.get("system"), item.get("value")) for item in other.get("identifier", ())}
            for key, other in self.patients.items()
            if key != logical_id and not _replaced_by(other)
        )

    def _search(self, query: str) -> list[dict[str, Any]]:
        found = list(self.patients.values())
        for name, values in parse_qs(query, keep_blank_values=True).items():
            found = [item for item in found if name.startswith("_") or _matches(item, name, values[0])]
        heads: dict[str, dict[str, Any]] = {}
        for item in found:
            head = item
            while self.survivor_for_old_numbers and _replaced_by(head):
                head = self.patients[_replaced_by(head)]
            heads[head["id"]] = head
        return list(heads.values())

    def _bundle(self, found: list[dict[str, Any]]) -> dict[str, Any]:
        entries = [{"resource": item, "search": {"mode": "match"}} for item in found]
        return {"resourceType": "Bundle", "type": "searchset", "total": len(found), "entry": entries}

    def _merge(self, parameters: dict[str, Any]) -> web.Response:
        if not self.merges:
            return outcome_of(404, "not-supported")
        given = {item["name"]: item for item in parameters["parameter"]}
        if not given.keys() >= set(self.merge_sides):
            outcome = {"resourceType": "OperationOutcome", "issue": [{"severity": "error", "code": "required"}]}
            result = [{"name": "outcome", "resource": outcome}]
            return answer_json(400, {"resourceType": "Parameters", "parameter": result})
        source, target = (self._side(given[name]) for name in self.merge_sides)
        if _replaced_by(source) or source is target:
            return outcome_of(422, "business-rule")
        if given.get("preview", {}).get("valueBoolean"):
            lost = [
                {"name": f"Patient.{name}"} for name in ("birthDate", "gender") if source.get(name) != target.get(name)
            ]
            return answer_json(200, {"resourceType": "Parameters", "parameter": lost})
        link = {"other": {"reference": f"Patient/{target['id']}"}, "type": "replaced-by"}
        back = {"other": {"reference": f"Patient/{source['id']}"}, "type": "replaces"}
        self._store(source["id"], source | {"active": False, "link": [*source.get("link", ()), link]})
        self._store(target["id"], target | {"link": [*target.get("link", ()), back]})
        self.effects.append(f"merge {source['id']} into {target['id']}")
        return answer_json(
            200, {"resourceType": "Parameters", "parameter": [{"name": "info", "valueString": "merged"}]}
        )

    def _side(self, parameter: dict[str, Any]) -> dict[str, Any]:
        return self.patients[parameter["valueReference"]["reference"].removeprefix("Patient/")]

    def _patient(self, status: int, body: dict[str, Any]) -> web.Response:
        answer = answer_json(status, body)
        answer.headers["ETag"] = f'W/"{body["meta"]["versionId"]}"'
        return answer


def _matches(patient: dict[str, Any], name: str, value: str) -> bool:
    if name == "identifier":
        numbers = {f"{item.get('system')}|{item.get('value')}" for item in patient.get("identifier", ())}
        return bool(numbers & set(value.split(",")))
    names = patient.get("name", [{}])
    if name == "family":
        return any(str(item.get("family", "")).lower().startswith(value.lower()) for item in names)
    if name == "given":
        return any(given.lower().startswith(value.lower()) for item in names for given in item.get("given", ()))
    return patient.get({"birthdate": "birthDate"}.get(name, name)) == value


def _replaced_by(patient: dict[str, Any]) -> str:
    for link in patient.get("link", ()):
        if link["type"] == "replaced-by":
            return str(link["other"]["reference"].removeprefix("Patient/"))
    return ""


def answer_json(status: int, body: Any) -> web.Response:
    """Return an answer with a body."""
    return web.Response(status=status, body=orjson.dumps(body), content_type="application/fhir+json")


def outcome_of(status: int, code: str, detail: str = "") -> web.Response:
    """Return a refusal with an OperationOutcome."""
    issue: dict[str, Any] = {"severity": "error", "code": code, "diagnostics": "SENTINEL-OF-A-PATIENT"}
    if detail:
        issue["details"] = {"coding": [{"code": detail}]}
    return answer_json(status, {"resourceType": "OperationOutcome", "issue": [issue]})
