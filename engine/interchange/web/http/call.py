"""One HTTP request to the FHIR door or the Chart API, with what has been found out of it; and its body."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl

from engine.interchange.core.audit.entry import Pairs
from engine.interchange.core.exchange import FhirRequest, HttpAnswer, Interaction, InteractionLevel, RequiredAccess
from engine.interchange.core.negotiation import encoding
from engine.interchange.core.service import Service
from engine.interchange.kernel.outcome import Category, refuse
from engine.interchange.store.access import AccessRow as Row
from engine.interchange.tokens.oauth.role import RoleRule
from engine.interchange.tokens.oauth.vault import Principal
from engine.interchange.web.bundles.step import BundleKind
from engine.interchange.web.http.gzip import BombError, expand
from engine.interchange.web.http.wire import RequestBody

WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})


async def _by_bundle(_service: Service, _request: FhirRequest) -> HttpAnswer:
    """Never run: a Bundle's entries are interactions of their own, and each is judged for itself."""
    return HttpAnswer(404)


# What metrics and logs call a Bundle of requests.
BUNDLES: Final = {
    kind: Interaction(
        "Bundle",
        kind,
        InteractionLevel.TYPE,
        "POST",
        RequiredAccess.WRITE,
        RoleRule.PATIENT,
        _by_bundle,
        own_rights=True,
    )
    for kind in BundleKind
}


@dataclass(slots=True)
class HttpCall:
    """One HTTP request to the FHIR door: method, path below /fhir/, query, headers, body; or one to the Chart API.

    `chart`: its path is below /chart/v1/.
    `origin` is where it came from, and its request id as it may be told. `principal`, `interaction`, `id`, `named`
    (patients), `refusal` and `error` are what has been found out of it; metrics, logs and the access log tell them.
    `former` is for whom the token was that is no longer valid. `text` is the body once it was read. `rows` are those of
    the access log for the entries of a Bundle that are not on disk yet.
    """

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: RequestBody
    origin: tuple[str, str] = ("", "")
    principal: Principal | None = None
    interaction: Interaction | None = None
    id: str = ""
    named: tuple[str, ...] = ()
    refusal: Category | None = None
    error: BaseException | None = None
    chart: bool = False
    former: Principal | None = None
    text: bytes | None = None
    rows: list[Row] = field(default_factory=list)

    @property
    def base(self) -> str:
        """What it calls, as metrics and the access log have it: R4, STU3 or chart."""
        return "chart" if self.chart else "R4" if self.path.partition("/")[0] == "R4" else "STU3"

    @property
    def address(self) -> str:
        """The path below the service's base."""
        return f"{'/chart/v1' if self.chart else '/fhir'}/{self.path}"

    def pairs(self) -> Pairs:
        """The parameters in the address, in the body of a form and in If-None-Exist, as far as they can be read."""
        form = self.interaction is not None and self.interaction.form and self.text
        parts = (self.query, form.decode("latin-1") if form else "", self.headers.get("if-none-exist", ""))
        found = (pair for part in parts for pair in parse_qsl(part.rpartition("?")[2], keep_blank_values=True))
        return tuple(pair for pair in found if "\0" not in "".join(pair))


async def read_body(service: Service, call: HttpCall) -> bytes:
    """Return the body of a call, expanded; RefusedError for one that is too large, or not compressed as it says."""
    if call.method not in WITH_BODY:
        return b""
    limit = service.configuration.max_body_bytes
    text = await call.body.read(call.headers.get("content-length"), limit)
    if text is not None and not encoding(call.headers.get("content-encoding", "")):
        return text
    try:
        if text is not None:
            return await asyncio.to_thread(expand, text, limit)
    except BombError:
        text = None
    except ValueError as error:
        raise refuse(
            Category.STRUCTURE, "The body is not compressed by gzip as it says.", location="http.body"
        ) from error
    raise refuse(Category.TOO_LONG, f"The body is larger than {limit} bytes.", location="http.body")
