"""One engine asked by its HTTP API what it says of itself: version, channels, counts, destinations, alerts.

Only reads, and only what the role `viewer` may see: nothing of a patient is asked for.
"""

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import orjson
from pydantic import ValidationError

from engine.config.sites import SiteSettings
from engine.deliver.wire.client import FhirClient, ServerResponse
from engine.errors import AdtEngineError, DeliveryError
from engine.ops.operations.addresses import ROOT, TABLE
from engine.ops.operations.alerts import AlertView, ListAlerts
from engine.ops.operations.channels import ChannelView, ListChannels
from engine.ops.operations.destinations import DestinationView, ListDestinations
from engine.ops.operations.messages import CountMessages
from engine.ops.operations.operation import AnyOperation
from engine.ops.views.answer import Answer
from engine.ops.views.counts import Counts
from engine.ops.views.incident import CAUSES, SILENT, Severity, sentence_of

MOST_BYTES: Final = 2 * 1024 * 1024
MOST_ALERTS: Final = 1_000
MOST_SAID: Final = 200
MASK: Final = "***"

# What an answer may lack, as one of an older engine does, and what is taken in its place.
CHANNEL: Final[Mapping[str, object]] = {
    "since": None, "by": "", "mode": "live", "address": "", "port": 0, "http": "", "connections": 0, "messages": 0,
    "refused": 0, "filtered": 0, "rules": {}, "strayed": {}, "duplicates": 0, "last_received_at": None,
    "merges_held": None, "mapping": "", "contact": "", "destinations": (), "lacks": {},
}  # fmt: skip
DESTINATION: Final[Mapping[str, object]] = {
    "reason": "", "detail": "", "since": None, "next_try_at": None, "by": "", "under_way": 0, "waiting": 0,
    "oldest_received_at": None, "held": 0, "held_since": None, "fhir": "", "concurrency": 0, "channels": (),
    "lacks": (),
}  # fmt: skip
ALERT: Final[Mapping[str, object]] = {
    "id": 0, "sentence": "", "detail": "", "cleared_at": None, "acknowledged_at": None, "acknowledged_by": "",
    "contact": "", "meaning": "", "can_wait": False, "severity": Severity.URGENT, "next_step": "",
}  # fmt: skip
COUNTS: Final[Mapping[str, object]] = {
    "entries": 0, "last": 0, "at_door": {}, "deliveries": {}, "oldest_unfinished_at": None, "settled": {}, "rules": {},
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class SiteFault:
    """Why an engine could not be asked: a code, what it does, the cause in words, and what to do next."""

    code: str
    does: str
    cause: str
    remedy: str


@dataclass(frozen=True, slots=True)
class SiteAnswer:
    """What an engine said of itself, or the fault; a part that it did not say is None, and `missing` says why."""

    fault: SiteFault | None = None
    version: str = ""
    channels: tuple[ChannelView, ...] | None = None
    counts: Counts | None = None
    destinations: tuple[DestinationView, ...] | None = None
    alerts: tuple[AlertView, ...] | None = None
    missing: tuple[str, ...] = ()


NETWORK: Final = "start that engine, or correct `url`; a firewall may be in between"
FAULTS: Final[Mapping[str, SiteFault]] = {
    **{code: SiteFault(code, "does not answer", CAUSES[code], NETWORK) for code in SILENT},
    "tls-certificate": SiteFault(
        "tls-certificate",
        "is not trusted",
        "its certificate is not valid for this address, or of an unknown authority",
        "name its authority in `ca_file`, and in `url` a host that its certificate names",
    ),
    "tls": SiteFault("tls", "does not answer", "TLS fails", "correct `url`: is it https, and its port?"),
    "answer-unreadable": SiteFault(
        "answer-unreadable", "is not understood", "what answers is not HTTP or not JSON", "correct `url`"
    ),
    "bad-request": SiteFault(
        "bad-request", "cannot be asked", "the token is not one line of ASCII", "correct what `token` names"
    ),
    "http-401": SiteFault(
        "http-401",
        "refuses the token",
        "it is unknown there, has ended or was revoked (HTTP 401)",
        "make one there with `adt-engine users token add NAME --role viewer`, and put it where `token` says",
    ),
    "http-421": SiteFault(
        "http-421",
        "refuses the address",
        "it is not known by this name (HTTP 421)",
        "write in `url` a host that its certificate names",
    ),
}
FORBIDDEN: Final = 403
REFUSED: Final = frozenset({401, FORBIDDEN, 421})
NOT_FOUND: Final = 404


class _SiteError(Exception):
    """The engine cannot be asked further; `fault` says why."""

    def __init__(self, fault: SiteFault) -> None:
        super().__init__(fault.code)
        self.fault = fault


class _PartError(Exception):
    """One part of the answer is not to be had; its text says why."""


async def ask(site: SiteSettings, seconds: float, version: str = "") -> SiteAnswer:
    """Ask an engine, within `seconds` in all; nothing is raised, and no text of the answer holds the token.

    `version`: what is known of it already; its description of the API, which says so, is long.
    """
    try:
        token = site.token.read()
        client = FhirClient(request_seconds=seconds, ca_file=site.ca_file, max_answer_bytes=MOST_BYTES, journaled=False)
    except LookupError as error:
        return _ours("secret-unreadable", f"the token cannot be read: {error}", "set it, or correct `token`")
    except AdtEngineError as error:
        return _ours("ca-file", str(error), "correct `ca_file`")
    try:
        async with asyncio.timeout(seconds):
            return await _Questions(site, client, token).all(version)
    except _SiteError as error:
        return SiteAnswer(error.fault)
    except TimeoutError:
        return SiteAnswer(FAULTS["timeout"])
    except DeliveryError as error:
        code = str(error)
        return SiteAnswer(FAULTS.get(code) or SiteFault(code, "cannot be asked", code, "see `adt-engine reasons`"))
    finally:
        with contextlib.suppress(AdtEngineError):
            await client.close()


def _ours(code: str, cause: str, remedy: str) -> SiteAnswer:
    return SiteAnswer(SiteFault(code, "cannot be asked", cause, remedy))


A = TypeVar("A", bound=Answer)


class _Questions:
    """The questions to one engine, one after the other on one connection."""

    def __init__(self, site: SiteSettings, client: FhirClient, token: str) -> None:
        self._site = site
        self._client = client
        self._token = token
        self._missing: list[str] = []
        self._lacks: set[str] = set()

    async def all(self, version: str) -> SiteAnswer:
        """Ask everything; _SiteError where nothing of it is to be had."""
        channels = await self._list(ListChannels, ChannelView, CHANNEL)
        counts = await self._counts()
        destinations = await self._list(ListDestinations, DestinationView, DESTINATION)
        alerts = _in_words(await self._list(ListAlerts, AlertView, ALERT, f"?limit={MOST_ALERTS}"))
        self._lacks -= {"sentence"}
        if all(part is None for part in (channels, counts, destinations, alerts)):
            cause = f"it has no API of an engine ({'; '.join(self._missing)})"
            raise _SiteError(SiteFault("no-api", "is not understood", cause, "correct `url`: is it an adt-engine?"))
        found = version or await self._version()
        if self._lacks:
            self._missing.append(f"its API does not say {', '.join(sorted(self._lacks))}")
        return SiteAnswer(None, found, channels, counts, destinations, alerts, tuple(self._missing))

    async def _list(
        self, operation: AnyOperation, kind: type[A], neutral: Mapping[str, object], query: str = ""
    ) -> tuple[A, ...] | None:
        try:
            rows = await self._get(TABLE[operation.name][1] + query)
            return tuple(self._read(kind, row, neutral) for row in _listed(rows))
        except _PartError as error:
            self._missing.append(f"{operation.name}: {error}")
            return None

    async def _counts(self) -> Counts | None:
        try:
            found = self._read(Counts, await self._get(f"{TABLE[CountMessages.name][1]}?since=1h"), COUNTS)
            return _whole(found)
        except _PartError as error:
            self._missing.append(f"{CountMessages.name}: {error}")
            return None

    async def _version(self) -> str:
        try:
            described = await self._get("/openapi.json")
            return str(described["info"]["version"])[:MOST_SAID]
        except (_PartError, LookupError, TypeError):
            self._missing.append("its version: not said")
            return ""

    def _read(self, kind: type[A], value: object, neutral: Mapping[str, object]) -> A:
        """Return one view; what it lacks, or has otherwise, is noted and has its neutral value."""
        try:
            return kind.model_validate(value)
        except ValidationError as error:
            wrong = {str(fault["loc"][0]) if fault["loc"] else "" for fault in error.errors(include_input=False)}
        if not isinstance(value, dict) or wrong - neutral.keys():
            named = ", ".join(sorted(filter(None, wrong - neutral.keys())))
            raise _PartError(f"not understood ({named})" if named else "not understood")
        self._lacks |= wrong
        return kind.model_validate({**value, **{name: neutral[name] for name in wrong}})

    async def _get(self, path: str) -> Any:
        """Return what an address of the API answers; _PartError where this part is not to be had."""
        headers = [("Authorization", f"Bearer {self._token}"), ("Accept", "application/json")]
        answer = await self._client.send("GET", f"{self._site.url}{ROOT}{path}", headers)
        if answer.status in REFUSED:
            raise _SiteError(self._refusal(answer))
        if answer.status == NOT_FOUND:
            raise _PartError("not in its API")
        if answer.status != 200:
            raise _PartError(f"HTTP {answer.status}")
        try:
            return orjson.loads(self._masked(answer.body))
        except orjson.JSONDecodeError:
            raise _PartError("not JSON") from None

    def _refusal(self, answer: ServerResponse) -> SiteFault:
        known = FAULTS.get(f"http-{answer.status}")
        if known is not None:
            return known
        try:
            detail = str(orjson.loads(self._masked(answer.body))["detail"])[:MOST_SAID]
        except (ValueError, LookupError, TypeError):
            detail = "no reason is said"
        remedy = "give it a token of the role viewer without --channel, and let this machine in (--admin-allow there)"
        return SiteFault("http-403", "forbids what is asked", f"{detail} (HTTP 403)", remedy)

    def _masked(self, body: bytes) -> bytes:
        """Return an answer without our token, whoever wrote it there."""
        return body.replace(self._token.encode(), MASK.encode())


def _in_words(alerts: tuple[AlertView, ...] | None) -> tuple[AlertView, ...] | None:
    """Return alerts with a sentence each, also of an engine that does not make one."""
    return alerts and tuple(
        one.model_copy(update={"sentence": one.sentence or sentence_of(one.kind, one.subject, one.detail)})
        for one in alerts
    )


def _listed(value: object) -> list[object]:
    if not isinstance(value, list):
        raise _PartError("not understood (not a list)")
    return value


def _whole(counts: Counts) -> Counts:
    """Return counts of which each channel says what the strip shows; else _PartError."""
    if not all({"received", "refused"} <= row.keys() for row in counts.received.values()):
        raise _PartError("not understood (received)")
    return counts
