"""A scripted server with the ways of Firely Server, each a switch, each with its public source."""

from typing import Any
from urllib.parse import parse_qs

import orjson
from aiohttp import web

from tests.deliver.fake_fhir import answer_json
from tests.destinations.server_like import ServerLike


class FirelyLike(ServerLike):
    """Ids of a client are taken (docs.fire.ly, "FHIR RESTful API": create-on-update).

    `races`: conditional creates at one moment (the same page, "Limitations on CRUD"). `most_entries`: a bundle with
    more is answered 413 (its settings, `SizeLimits.MaxBatchEntries`: 150). `page` and `most_on_a_page`: a search is
    answered with so many resources, or with as many as `_count` says up to the second number, and the link `next` where
    there are more (its settings, `BundleOptions`: `DefaultCount` 10, `MaxCount` 50; 0: with all).
    """

    def __init__(self) -> None:
        super().__init__("Firely Server", "6.2.0")
        self.most_entries = 150
        self.too_many = 413
        self.page = 10
        self.most_on_a_page = 50

    def _answer(self, request: web.Request, path: str, body: bytes) -> web.Response:
        answer = super()._answer(request, path, body)
        if request.method != "GET" or "/" in path or answer.status != 200 or not self.page:
            return answer
        assert isinstance(answer.body, bytes)
        bundle: dict[str, Any] = orjson.loads(answer.body)
        wanted = int(parse_qs(request.query_string).get("_count", [str(self.page)])[0])
        shown = min(wanted, self.most_on_a_page)
        if bundle.get("resourceType") == "Bundle" and len(bundle["entry"]) > shown:
            bundle["entry"] = bundle["entry"][:shown]
            bundle["link"] = [{"relation": "next", "url": f"{self.base}/{path}?_skip={shown}"}]
            return answer_json(200, bundle)
        return answer
