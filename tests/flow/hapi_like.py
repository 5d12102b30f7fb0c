"""A scripted server with the ways of HAPI: it answers searches from a cache, keeps numbers of merged records as old.

What it does is set by attributes; `Step`s of the scripted server under it let one request go wrong. Its clock stands
still until a test turns it (`time`), so that a cached search is as old as the test wants it.
"""

import itertools
import math
from typing import Any, Final

from aiohttp import web

from tests.deliver.fake_chart import FakeChart
from tests.deliver.fake_fhir import answer_json, outcome_of
from tests.flow.rig import Rig, channel_file, destination, write

FOR_EVER: Final = math.inf
CACHE_SECONDS: Final = 60.0
TYPES: Final = ("Encounter", "Practitioner", "Location", "Organization", "Account", "Condition", "AllergyIntolerance")
_FRESH: Final = frozenset({"no-cache", "no-store"})


class HapiLike(FakeChart):
    """Numbers need not be unique, merged-away records are found, ids are the server's, searches come from a cache.

    `cache_seconds`: how long the ids that a search found are answered again; the resources are shown as they are now.
    `honours_no_cache`: whether a request may ask for a search of its own. `searches`: each search with whether it was
    answered from the cache. `conditional`: whether it creates on condition, and says so; that always searches anew.
    Its merge is called `$hapi.fhir.merge`, and the sides of that otherwise than in the standard's. `breaks_on_chains`:
    a merge whose source is the survivor of another one is answered 500, each time. `broken`: numbers of which every
    write is answered 500.
    """

    def __init__(self) -> None:
        super().__init__()
        self.unique_mrn = False
        self.survivor_for_old_numbers = False
        self.software = {"name": "HAPI FHIR Server", "version": "8.8.0"}
        self.operations = ["hapi.fhir.merge", "hapi.fhir.undo-merge"]
        self.merge_paths = {"Patient/$hapi.fhir.merge"}
        self.merge_sides = ("source-resource", "target-resource")
        self.breaks_on_chains = False
        self.broken: set[str] = set()
        self.cache_seconds = CACHE_SECONDS
        self.honours_no_cache = True
        self.conditional = True
        self.time = 0.0
        self.searches: list[tuple[str, bool]] = []
        self._given = itertools.count(1000)
        self._cached: dict[str, tuple[float, tuple[str, ...]]] = {}

    def lose(self, reference: str) -> None:
        """Let a resource never have been, as a database does that was killed before it wrote it."""
        type_, _, logical_id = reference.partition("/")
        del (self.patients if type_ == "Patient" else self.chart)[logical_id if type_ == "Patient" else reference]

    def cached(self, search: str, *ids: str) -> None:
        """Let a search (`Patient?identifier=...`) have found these a moment ago."""
        self._cached[search] = (self.time, ids)

    def numbered(self, value: str) -> list[dict[str, Any]]:
        """Return the Patients that carry a number, in whatever use."""
        return [one for one in self.patients.values() if value in {i.get("value") for i in one.get("identifier", ())}]

    def _answer(self, request: web.Request, path: str, body: bytes) -> web.Response:
        if request.method == "GET" and path in {"Patient", *TYPES}:
            return self._searched(request, path)
        if request.method in {"PUT", "POST"} and any(f'"{one}"'.encode() in body for one in self.broken):
            return outcome_of(500, "exception")
        return super()._answer(request, path, body)

    def _searched(self, request: web.Request, type_: str) -> web.Response:
        key = f"{type_}?{request.query_string}"
        asked = {part.strip() for part in request.headers.get("Cache-Control", "").split(",")}
        at, ids = self._cached.get(key, (-FOR_EVER, ()))
        reused = self.time - at < self.cache_seconds and not (self.honours_no_cache and asked & _FRESH)
        self.searches.append((key, reused))
        if not reused:
            look = self._search(request.query_string) if type_ == "Patient" else self._look(type_, request.query_string)
            ids = tuple(one["id"] for one in look)
            self._cached[key] = (self.time, ids)
        shown = self.patients if type_ == "Patient" else {one["id"]: one for one in self.of(type_)}
        return answer_json(200, self._bundle([shown[one] for one in ids if one in shown]))

    def _new_id(self, _type: str) -> str:
        return str(next(self._given))

    def _create(self, body: dict[str, Any], condition: str | None) -> web.Response:
        return super()._create(body, condition if self.conditional else None)

    def _made(self, type_: str, body: dict[str, Any], condition: str | None) -> web.Response:
        return super()._made(type_, body, condition if self.conditional else None)

    def _update(self, logical_id: str, body: dict[str, Any], tag: str | None) -> web.Response:
        if logical_id not in self.patients and logical_id.isdigit():
            return outcome_of(400, "processing")  # HAPI-0960: an id that only the server gives
        return super()._update(logical_id, body, tag)

    def _merge(self, parameters: dict[str, Any]) -> web.Response:
        given = {item["name"]: item for item in parameters["parameter"]}
        if not given.keys() >= set(self.merge_sides):
            return super()._merge(parameters)
        merged, kept = (self._side(given[name]) for name in self.merge_sides)
        if self.breaks_on_chains and any(link["type"] == "replaces" for link in merged.get("link", ())):
            return outcome_of(500, "exception")  # ClassCastException
        answer = super()._merge(parameters)
        if answer.status == 200 and "preview" not in given:
            self._take_over(f"Patient/{merged['id']}", f"Patient/{kept['id']}")
        return answer

    def _take_over(self, source: str, target: str) -> None:
        """Give the survivor the merged record's numbers as old ones, and all that referred to it."""
        gone, kept = (self.patients[one.removeprefix("Patient/")] for one in (source, target))
        old = [item | {"use": "old"} for item in gone.get("identifier", ())]
        self._store(kept["id"], kept | {"identifier": [*kept.get("identifier", ()), *old]})
        for reference, body in list(self.chart.items()):
            if body.get("subject") == {"reference": source}:
                self._keep(reference, body | {"subject": {"reference": target}})

    def _statement(self) -> dict[str, Any]:
        statement = super()._statement()
        statement["rest"][0]["resource"] += [{"type": type_} for type_ in TYPES]
        for resource in statement["rest"][0]["resource"]:
            resource["conditionalCreate"] = self.conditional
        return statement


class HapiRig(Rig):
    """The engine as a process before a scripted server with HAPI's ways, through the recording proxy; no service."""

    hapi: HapiLike

    async def open(self, **channel: Any) -> "HapiRig":
        """Start server and proxy and write the channel file; keywords override keys of the channel."""
        self.hapi = HapiLike()
        await self.hapi.start()
        await self.proxy.start(self.hapi.base.removesuffix("/fhir/R4"))
        self.configure(**channel)
        return self

    def configure(self, **channel: Any) -> None:
        """Write the channel file; keywords override keys of the channel."""
        own = {"destinations": [destination(self.proxy.url, auth={"type": "none"}, if_none_exist="identifier")]}
        write(self.folder / "channels" / "riverbend-adt.yaml", channel_file(self.proxy.url) | own | channel)

    async def close(self) -> None:
        """End the engine and close every socket."""
        await super().close()
        await self.hapi.stop()
