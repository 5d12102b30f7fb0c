"""The scripted FHIR server with charts: resources of any type beside the Patients; it refuses what dangles."""

from typing import Any
from urllib.parse import parse_qs

import orjson
from aiohttp import web

from tests.deliver.fake_fhir import FakeFhir, answer_json, outcome_of


class FakeChart(FakeFhir):
    """Resources by reference (`Encounter/e1`) with versions, conditional create by identifier, and If-Match."""

    def __init__(self) -> None:
        super().__init__()
        self.chart: dict[str, dict[str, Any]] = {}
        self.gone: set[str] = set()

    def of(self, type_: str) -> list[dict[str, Any]]:
        """Return the resources of a type."""
        return [body for name, body in self.chart.items() if name.startswith(f"{type_}/")]

    def write(self, reference: str, **elements: Any) -> None:
        """Change a resource as another client would."""
        self._keep(reference, self.chart[reference] | elements)

    def delete(self, reference: str) -> None:
        """Delete a resource as an administrator would."""
        del self.chart[reference]
        self.gone.add(reference)

    def _answer(self, request: web.Request, path: str, body: bytes) -> web.Response:
        type_, _, logical_id = path.partition("/")
        if type_ in {"Patient", "metadata"}:
            return super()._answer(request, path, body)
        if request.method != "GET":
            return self._written(request, path, orjson.loads(body))
        if not logical_id:
            return answer_json(200, self._bundle(self._look(type_, request.query_string)))
        held = self.chart.get(path)
        return self._told(200, held) if held else outcome_of(410 if path in self.gone else 404, "not-found")

    def _written(self, request: web.Request, path: str, content: dict[str, Any]) -> web.Response:
        if dangling := [
            one for one in _references(content) if one not in self.chart and not one.startswith("Patient/")
        ]:
            return outcome_of(422, "not-found", dangling[0].partition("/")[0])
        if request.method == "POST":
            return self._made(path, content, request.headers.get("If-None-Exist"))
        held = self.chart.get(path)
        if held is None:
            return outcome_of(410 if path in self.gone else 404, "not-found")
        tag = request.headers.get("If-Match")
        if tag and tag != f'W/"{held["meta"]["versionId"]}"':
            return outcome_of(412, "conflict")
        self._keep(path, content)
        self.effects.append(f"update {path}")
        return self._told(200, self.chart[path])

    def _made(self, type_: str, body: dict[str, Any], condition: str | None) -> web.Response:
        found = self._look(type_, condition) if condition else []
        if len(found) > 1:
            return outcome_of(412, "multiple-matches")
        if found:
            return self._told(200, found[0])
        reference = f"{type_}/{self._new_id(type_)}"
        self._keep(reference, body)
        self.effects.append(f"create {reference}")
        return self._told(201, self.chart[reference])

    def _keep(self, reference: str, body: dict[str, Any]) -> None:
        version = int(self.chart.get(reference, {}).get("meta", {}).get("versionId", "0")) + 1
        logical_id = reference.partition("/")[2]
        self.chart[reference] = body | {"id": logical_id, "meta": {"versionId": str(version)}}

    def _look(self, type_: str, query: str) -> list[dict[str, Any]]:
        asked = parse_qs(query)
        found = self.of(type_)
        if "identifier" in asked:
            wanted = set(asked["identifier"][0].split(","))
            found = [one for one in found if wanted & {f"{i['system']}|{i['value']}" for i in one["identifier"]}]
        if "patient" in asked:
            found = [one for one in found if asked["patient"][0] in _holders(one)]
        return found

    def _told(self, status: int, body: dict[str, Any]) -> web.Response:
        answer = answer_json(status, body)
        answer.headers["ETag"] = f'W/"{body["meta"]["versionId"]}"'
        return answer


def _holders(body: dict[str, Any]) -> set[str]:
    held = [body[name] for name in ("subject", "patient", "beneficiary") if name in body]
    each = [one for part in held for one in (part if isinstance(part, list) else [part])]
    return {one["reference"] for one in each}


def _references(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = value.get("reference")
        return [own] if isinstance(own, str) else [one for part in value.values() for one in _references(part)]
    return [one for part in value for one in _references(part)] if isinstance(value, list) else []
