"""One HTTP request to FHIR or the Chart API, what is known of it, and its body."""

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
from engine.interchange.tokens.role import RoleRule
from engine.interchange.tokens.vault import Principal
from engine.interchange.web.bundles.step import BundleKind
from engine.interchange.web.http.wire import BombError, RequestBody, expand

WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})


async def _by_bundle(_service: Service, _request: FhirRequest) -> HttpAnswer:
    """Never run: each entry of a Bundle is an interaction that is admitted by itself."""
    return HttpAnswer(404)


# The interaction of a Bundle in metrics and logs.
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
    """One HTTP request to FHIR, with its path below /fhir/, or to the Chart API (`chart`), below /chart/v1/.

    `origin` is the client's address and the request id as logged. `principal`, `interaction`, `id`, `named` (patients),
    `refusal` and `error` are filled in as they become known, for metrics, logs and the access log. `former` is the
    principal of a token that is no longer valid. `text` is the body once it is read. `rows` are the access log's rows
    of a Bundle's entries that are not on disk yet.
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
        """The base in metrics and the access log: R4, STU3 or chart."""
        return "chart" if self.chart else "R4" if self.path.partition("/")[0] == "R4" else "STU3"

    @property
    def address(self) -> str:
        """The path below the service's base."""
        return f"{'/chart/v1' if self.chart else '/fhir'}/{self.path}"

    def pairs(self) -> Pairs:
        """The parameters in the address, the form and If-None-Exist, as far as they can be parsed."""
        form = self.interaction is not None and self.interaction.form and self.text
        parts = (self.query, form.decode("latin-1") if form else "", self.headers.get("if-none-exist", ""))
        found = (pair for part in parts for pair in parse_qsl(part.rpartition("?")[2], keep_blank_values=True))
        return tuple(pair for pair in found if "\0" not in "".join(pair))


async def read_body(service: Service, call: HttpCall) -> bytes:
    """Return the decompressed body of a call; RefusedError if it is too large, or does not fit its Content-Encoding."""
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
