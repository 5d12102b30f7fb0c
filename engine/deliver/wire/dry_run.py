"""A dry run: what delivering a plan would do at the server now; its reads are real, its writes only recorded.

Delivery runs on it as it runs on the server itself; what it has written by then overrides what the server shows.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import parse_qs

import orjson

from engine.deliver.stored import Body, Cache
from engine.deliver.verdict import Verdict
from engine.deliver.wire.client import ServerResponse
from engine.deliver.wire.server import Caches, Continuity, DestinationServer
from engine.errors import PermanentDeliveryError
from engine.fhir.patient_compartment import SEARCHES, asked_of, patients_of

MOST_DIFFERENCES: Final = 500
# What the server gives by itself, and so says nothing of a change.
_OWN: Final = frozenset({"meta", "id", "resourceType"})


@dataclass(frozen=True, slots=True, repr=False)
class PlannedCall:
    """A write that would be sent; `path` is relative to the base URL, `changes` False says that it is a preview."""

    method: str
    path: str
    headers: tuple[tuple[str, str], ...]
    body: Any
    changes: bool = True


@dataclass(frozen=True, slots=True, repr=False)
class ElementDifference:
    """One element of a resource before and after; None is nothing there. `path` is `name[0].family`."""

    resource: str
    path: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True, repr=False)
class DryRun:
    """What a delivery would do: its verdict, the writes in their order, and what would differ at the server.

    The verdict tells nothing that is to be remembered, as nothing took place. At most `MOST_DIFFERENCES` differences.
    What only the server decides when it is written to, such as a number that is taken, is not known.
    """

    verdict: Verdict
    calls: tuple[PlannedCall, ...] = ()
    differences: tuple[ElementDifference, ...] = ()


def unremembered(verdict: Verdict) -> Verdict:
    """Return a verdict without all that the journal would keep of a delivery."""
    return replace(verdict, attempts=(), known=(), owned=(), merges=(), inherited=(), applied=False)


def differences(resource: str, before: Body | None, after: Body | None) -> Iterator[ElementDifference]:
    """Yield what differs between two states of a resource, element by element; None where there is none."""
    old, new = before or {}, after or {}
    for name in dict.fromkeys((*old, *new)):
        if name not in _OWN:
            yield from _between(resource, name, old.get(name), new.get(name), whole=not (old and new))


def _between(resource: str, path: str, old: Any, new: Any, *, whole: bool = False) -> Iterator[ElementDifference]:
    if old == new:
        return
    if not whole and isinstance(old, dict) and isinstance(new, dict):
        for name in dict.fromkeys((*old, *new)):
            yield from _between(resource, f"{path}.{name}", old.get(name), new.get(name))
    elif not whole and isinstance(old, list) and isinstance(new, list):
        yield from _lists(resource, path, old, new)
    else:
        yield ElementDifference(resource, path, old, new)


def _lists(resource: str, path: str, old: list[Any], new: list[Any]) -> Iterator[ElementDifference]:
    """Compare lists by their items: equal ones wherever they stand first, the rest in their order."""
    come = list(enumerate(new))
    gone = []
    for at, item in enumerate(old):
        same = next((one for one in come if one[1] == item), None)
        if same is None:
            gone.append((at, item))
        else:
            come.remove(same)
    if not gone and not come:
        yield ElementDifference(resource, path, old, new)
    for (_, was), (at, now) in zip(gone, come, strict=False):
        yield from _between(resource, f"{path}[{at}]", was, now)
    for at, was in gone[len(come) :]:
        yield ElementDifference(resource, f"{path}[{at}]", was, None)
    for at, now in come[len(gone) :]:
        yield ElementDifference(resource, f"{path}[{at}]", None, now)


MOST_READS: Final = 200
ROOM: Final = 64
MADE: Final = "new-"
_REFUSED: Final = frozenset({400, 422})
_SPLIT: Final = re.compile(r"(?<!\\),")
_ESCAPE: Final = re.compile(r"\\(.)")

Headers = tuple[tuple[str, str], ...]


class DryRunServer(DestinationServer):
    """A destination's server in one dry run; keeps nothing that outlives it and changes nothing of the real one.

    At most `MOST_READS` requests are made, then PermanentDeliveryError `rehearsal-too-long`.
    """

    def __init__(self, real: DestinationServer) -> None:
        super().__init__(real.settings, real.client, real.authorizer, Caches(Cache(ROOM)), Continuity(lambda: 0.0))
        can = real.abilities
        self.abilities = replace(can, provable=False, if_match=can.if_match or can.provable)
        self.calls: list[PlannedCall] = []
        self._real = real
        self._reads = 0
        self._made = 0
        self._shown: dict[str, Body] = {}
        self._pretended: dict[str, Body | None] = {}

    async def ask(self, method: str, url: str, headers: Headers, body: bytes = b"") -> ServerResponse:
        """Read from the server, or record a write and answer it."""
        path = url.removeprefix(f"{self.base}/")
        if method == "GET":
            return await (self._search(path) if "?" in path else self._read(path))
        content: Body = orjson.loads(body) if body else {}
        previews = _previews(path, content)
        self.calls.append(PlannedCall(method, path, headers, content or None, changes=not previews))
        if previews:
            return _answer(200, {"resourceType": "Parameters"})
        if method == "PUT":
            return await self._put(path, content, once="If-None-Match" in dict(headers))
        if method == "DELETE":
            reference = path.partition("?")[0]
            await self._know(reference)
            self._pretended[reference] = None
            return _answer(204, None)
        if "/$" in path:
            return await self._merge(content)
        return await self._create(path, content, dict(headers).get("If-None-Exist", ""))

    def differences(self) -> tuple[ElementDifference, ...]:
        """Return what would be otherwise at the server, in the order in which it was written."""
        found: list[ElementDifference] = []
        for reference, after in self._pretended.items():
            found += differences(reference, self._shown.get(reference), after)
        return tuple(found[:MOST_DIFFERENCES])

    async def _read(self, reference: str) -> ServerResponse:
        if reference in self._pretended:
            body = self._pretended[reference]
            return _answer(410, None) if body is None else _answer(200, body)
        answer = await self._really(reference)
        if answer.status == 200:
            self._show(answer.json)
        return answer

    async def _know(self, reference: str) -> Body:
        """Return what a resource is by now; read where nobody has looked yet."""
        if reference not in self._pretended and reference not in self._shown:
            await self._read(reference)
        return self._pretended.get(reference) or self._shown.get(reference) or {}

    async def _search(self, path: str) -> ServerResponse:
        type_, _, query = path.partition("?")
        asked = parse_qs(query)
        found: dict[str, Body] = {}
        if not any(f"/{MADE}" in patient for patient in asked.get("patient", ())):
            answer = await self._really(path)
            if answer.status != 200 or not isinstance(answer.json, dict):
                return answer
            for entry in answer.json.get("entry") or ():
                resource: Any = entry.get("resource") if _is_match(entry) else None
                if reference := self._show(resource):
                    found[reference] = resource
        for reference, body in self._pretended.items():
            if body is None:
                found.pop(reference, None)
            elif reference in found or (reference.startswith(f"{type_}/") and _answers(body, asked)):
                found[reference] = body
        entries = [{"resource": body, "search": {"mode": "match"}} for body in found.values()]
        return _answer(200, {"resourceType": "Bundle", "type": "searchset", "entry": entries})

    async def _create(self, type_: str, body: Body, condition: str) -> ServerResponse:
        if condition:
            answer = await self._matching(type_, body, condition)
            if answer.status != 200:
                return answer
            matches = [entry["resource"] for entry in answer.json["entry"]]
            if matches:
                return _answer(200, matches[0]) if len(matches) == 1 else _answer(412, None)
        self._made += 1
        logical_id = f"{MADE}{self._made}"
        return self._wrote(f"{type_}/{logical_id}", {**body, "id": logical_id}, 201)

    async def _matching(self, type_: str, body: Body, condition: str) -> ServerResponse:
        """Search as a conditional create does; a server that searches only one patient's asks for that patient."""
        answer = await self._search(f"{type_}?{condition}")
        if answer.status not in _REFUSED:
            return answer
        holder = next(iter(patients_of(body)), "")
        return await self._search(f"{type_}?{asked_of(type_, holder)}{condition}") if holder else answer

    async def _put(self, reference: str, body: Body, *, once: bool) -> ServerResponse:
        there = bool(await self._know(reference))
        if once and there:
            return _answer(412, None)
        return self._wrote(reference, body, 200 if there or not once else 201)

    async def _merge(self, content: Any) -> ServerResponse:
        """Make the survivor replace the source, as `Patient/$merge` does."""
        source, target = (_reference(content, side) for side in ("source-", "target-"))
        for mine, theirs, kind in ((source, target, "replaced-by"), (target, source, "replaces")):
            body = await self._know(mine)
            link = {"other": {"reference": theirs}, "type": kind}
            more: Body = {"active": False} if mine == source else {}
            self._wrote(mine, {**body, **more, "link": [*(body.get("link") or ()), link]}, 200)
        return _answer(200, {"resourceType": "Parameters"})

    def _wrote(self, reference: str, body: Body, status: int) -> ServerResponse:
        version = (body.get("meta") or {}).get("versionId", "")
        body = {**body, "meta": {**(body.get("meta") or {}), "versionId": f"{version}n"[-64:]}}
        self._pretended[reference] = body
        return _answer(status, body)

    async def _really(self, path: str) -> ServerResponse:
        self._reads += 1
        if self._reads > MOST_READS:
            raise PermanentDeliveryError("rehearsal-too-long", codes=("rehearsal-too-long",))
        return await self._real.ask("GET", f"{self.base}/{path}", ())

    def _show(self, body: Any) -> str:
        """Note a resource as the server has it and return its reference, empty where it is none."""
        if not isinstance(body, dict) or not body.get("id") or not body.get("resourceType"):
            return ""
        reference = f"{body['resourceType']}/{body['id']}"
        self._shown.setdefault(reference, body)
        return reference


def _answer(status: int, content: Any) -> ServerResponse:
    return ServerResponse(status, {}, b"" if content is None else orjson.dumps(content), content, 0.0)


def _previews(path: str, content: Any) -> bool:
    parameters = content.get("parameter") or () if "/$" in path else ()
    return any(parameter.get("name") == "preview" and parameter.get("valueBoolean") for parameter in parameters)


def _reference(content: Any, side: str) -> str:
    named = (one for one in content["parameter"] if one["name"].startswith(side))
    return next(str(one["valueReference"]["reference"]) for one in named)


def _is_match(entry: Any) -> bool:
    return isinstance(entry, dict) and (entry.get("search") or {}).get("mode", "match") == "match"


def _answers(body: Body, asked: dict[str, list[str]]) -> bool:
    """Say whether a resource that would be written is found by a search for identifiers, and for its patient."""
    tokens = {token for text in asked.get("identifier", ()) for token in _tokens(text)}
    carried = {(one.get("system"), one.get("value")) for one in body.get("identifier") or () if isinstance(one, dict)}
    patients = [one for name in SEARCHES for one in asked.get(name, ())]
    return bool(tokens & carried) and (not patients or bool(patients_of(body) & set(patients)))


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    for token in _SPLIT.split(text):
        system, _, value = token.rpartition("|")
        yield _ESCAPE.sub(r"\1", system), _ESCAPE.sub(r"\1", value)
