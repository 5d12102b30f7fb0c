"""The scripted FHIR server with charts: resources of any type beside the Patients; it refuses what dangles."""

from collections.abc import Set as AbstractSet
from datetime import datetime
from enum import StrEnum
from types import SimpleNamespace
from typing import Any, ClassVar
from urllib.parse import parse_qs

import orjson
from aiohttp import web

from tests.deliver.fake_fhir import FakeFhir, answer_json, outcome_of

BASE = "/fhir/R4"


class Habit(StrEnum):
    """What a server may do wrong with transactions, though it states them."""

    FAILS = "answers every one 500, and does nothing"
    REFUSES = "answers every one 400, and does nothing"
    KEEPS_A_PART = "keeps what it had done when an entry was refused"
    TELLS_BY_ENTRY = "does each entry for itself, and answers 200 with a refusal in an entry, beside what was sent"
    IGNORES_CONDITIONS = "creates whatever ifNoneExist says"
    LEAVES_REFERENCES = "refers to what it would have made, though it is there already, as Blaze does unless it checks"
    REVERSES = "answers the entries of one type in another order"
    LEAVES_ONE_OUT = "leaves the last entry out of its answer"
    SHOWS_NO_RESOURCES = "answers with locations only"
    SHOWS_NOTHING = "answers with statuses only"


class FakeChart(FakeFhir):
    """Resources by reference (`Encounter/e1`) with versions, conditional create by identifier, and If-Match.

    Transactions are stated and taken where `transactions` is set, with `habits`.
    """

    KEPT: ClassVar = (*FakeFhir.KEPT, "chart")

    def __init__(self) -> None:
        super().__init__()
        self.chart: dict[str, dict[str, Any]] = {}
        self.gone: set[str] = set()
        self.transactions = False
        self.habits: set[Habit] = set()

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
        if path == BASE:
            return self._transaction(orjson.loads(body)) if self.transactions else outcome_of(404, "not-supported")
        if type_ in {"Patient", "metadata", "$process-message"}:
            return super()._answer(request, path, body)
        if request.method != "GET":
            return self._written(request, path, orjson.loads(body))
        if not logical_id:
            return answer_json(200, self._bundle(self._found(request, type_)))
        held = self.chart.get(path)
        return self._told(200, held) if held else outcome_of(410 if path in self.gone else 404, "not-found")

    def _found(self, request: web.Request, type_: str) -> list[dict[str, Any]]:
        return super()._found(request, type_) if type_ == "Patient" else self._look(type_, request.query_string)

    def _statement(self) -> dict[str, Any]:
        statement = super()._statement()
        if self.transactions:
            statement["rest"][0]["interaction"] = [{"code": "transaction"}]
        return statement

    def _transaction(self, bundle: dict[str, Any]) -> web.Response:
        if self.habits & {Habit.FAILS, Habit.REFUSES}:
            return outcome_of(500 if Habit.FAILS in self.habits else 400, "exception")
        before = dict(self.chart), list(self.effects)
        answers: list[dict[str, Any]] = []
        content = orjson.dumps(bundle["entry"])
        targets: list[tuple[str, bool]] = []
        for entry in bundle["entry"]:
            target, refusal = self._target(entry)
            if refusal is not None:
                return refusal
            matched = entry["request"]["method"] == "POST" and target in self.chart
            targets.append((target, matched))
            lost = matched and Habit.LEAVES_REFERENCES in self.habits
            named = f"{entry['request']['url']}/{self._new_id('lost')}" if lost else target
            content = content.replace(orjson.dumps(entry["fullUrl"]), orjson.dumps(named))
        promised = {target for target, _ in targets} - self.chart.keys()
        for entry, (target, matched) in zip(orjson.loads(content), targets, strict=True):
            answer = self._told(200, self.chart[target]) if matched else self._done(entry, target, promised)
            if answer.status >= 300 and Habit.TELLS_BY_ENTRY not in self.habits:
                if Habit.KEEPS_A_PART not in self.habits:
                    self.chart, self.effects = before
                return answer
            answers.append(self._in_bundle(answer, target, entry["resource"]))
        if Habit.REVERSES in self.habits:
            answers = _reversed(answers, [target.partition("/")[0] for target, _ in targets])
        if Habit.LEAVES_ONE_OUT in self.habits:
            answers.pop()
        return answer_json(200, {"resourceType": "Bundle", "type": "transaction-response", "entry": answers})

    def _target(self, entry: dict[str, Any]) -> tuple[str, web.Response | None]:
        """Return what an entry writes, or why the transaction is refused."""
        request = entry["request"]
        if request["method"] != "POST":
            return request["url"], None
        found = self._look(request["url"], request["ifNoneExist"])
        if not found or Habit.IGNORES_CONDITIONS in self.habits:
            return f"{request['url']}/{self._new_id(request['url'])}", None
        refusal = outcome_of(412, "multiple-matches") if len(found) > 1 else None
        return f"{request['url']}/{found[0]['id']}", refusal

    def _done(self, entry: dict[str, Any], target: str, promised: AbstractSet[str]) -> web.Response:
        request, body = entry["request"], entry["resource"]
        if request["method"] == "PUT":
            asked = SimpleNamespace(method="PUT", headers={"If-Match": request.get("ifMatch")})
            return self._written(asked, target, body, promised)
        if dangling := self._dangling(body, promised):
            return outcome_of(422, "not-found", dangling[0].partition("/")[0])
        self._keep(target, body)
        self.effects.append(f"create {target}")
        return self._told(201, self.chart[target])

    def _in_bundle(self, answer: web.Response, target: str, sent: dict[str, Any]) -> dict[str, Any]:
        response = {"status": f"{answer.status} told"}
        shown = Habit.SHOWS_NOTHING not in self.habits
        if answer.status >= 300:
            echo = sent | {"id": target.partition("/")[2]}
            return {"resource": echo, "response": response | {"outcome": orjson.loads(answer.body)}}
        if shown:
            response |= {"etag": answer.headers["ETag"], "location": f"{target}/_history/1"}
        if shown and Habit.SHOWS_NO_RESOURCES not in self.habits:
            return {"resource": orjson.loads(answer.body), "response": response}
        return {"response": response}

    def _dangling(self, content: dict[str, Any], promised: AbstractSet[str]) -> list[str]:
        if Habit.LEAVES_REFERENCES in self.habits:
            return []
        there = self.chart.keys() | promised
        return [one for one in references_in(content) if one not in there and not one.startswith("Patient/")]

    def _written(
        self, request: Any, path: str, content: dict[str, Any], promised: AbstractSet[str] = frozenset()
    ) -> web.Response:
        if dangling := self._dangling(content, promised):
            return outcome_of(422, "not-found", dangling[0].partition("/")[0])
        if request.method == "POST":
            return self._made(path, content, request.headers.get("If-None-Exist"))
        return self._put_resource(request, path, content)

    def _put_resource(self, request: Any, path: str, content: dict[str, Any]) -> web.Response:
        held = self.chart.get(path)
        if held is None and not self.update_create:
            return outcome_of(410 if path in self.gone else 404, "not-found")
        once = self.honours_if_none_match and request.headers.get("If-None-Match") == "*"
        tag = request.headers.get("If-Match")
        if held is not None and (once or (tag and tag != f'W/"{held["meta"]["versionId"]}"')):
            return outcome_of(412, "conflict")
        self._keep(path, content)
        self.gone.discard(path)
        self.effects.append(f"update {path}" if held else f"create {path}")
        return self._told(200 if held else 201, self.chart[path])

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
        return [one for one in found if all(_reaches(one.get("period", {}), date) for date in asked.get("date", ()))]

    def _told(self, status: int, body: dict[str, Any]) -> web.Response:
        answer = answer_json(status, body)
        answer.headers["ETag"] = f'W/"{body["meta"]["versionId"]}"'
        return answer


def _reversed(answers: list[dict[str, Any]], types: list[str]) -> list[dict[str, Any]]:
    """Return answers with those of each type in the opposite order."""
    turned = {type_: [one for one, other in zip(answers, types, strict=True) if other == type_] for type_ in types}
    return [turned[type_].pop() for type_ in types]


def _reaches(period: dict[str, Any], date: str) -> bool:
    """Say whether a period has begun and is not over before a moment (`ge`)."""
    return "start" in period and ("end" not in period or datetime.fromisoformat(period["end"]) >= _moment(date))


def _moment(date: str) -> datetime:
    """Return the moment of a parameter `date`, which must say `ge` of it."""
    assert date.startswith("ge")
    return datetime.fromisoformat(date.removeprefix("ge"))


def _holders(body: dict[str, Any]) -> set[str]:
    held = [body[name] for name in ("subject", "patient", "beneficiary") if name in body]
    each = [one for part in held for one in (part if isinstance(part, list) else [part])]
    return {one["reference"] for one in each}


def references_in(value: Any) -> list[str]:
    """Return every reference in a part of a resource, in order."""
    if isinstance(value, dict):
        own = value.get("reference")
        return [own] if isinstance(own, str) else [one for part in value.values() for one in references_in(part)]
    return [reference for part in value for reference in references_in(part)] if isinstance(value, list) else []
