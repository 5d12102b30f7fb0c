"""Another FHIR server as a source: its token, the patient found, and the record by $everything or by searches."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Final

import orjson

from engine.config.connector import Connector as Settings
from engine.config.connector import ConnectorAuth
from engine.config.secret import Secret
from engine.fhir.json import JsonObject
from engine.fhir.schema import FhirVersion
from engine.fhir.versions.names import name_in
from engine.interchange.kernel.exact import write_json
from engine.interchange.kernel.outbound import Outbound, OutboundError, OutboundReply
from engine.interchange.network.patient360.connectors.connector import (
    FHIR,
    RequestedPatient,
    RetrievedDocument,
    SourceError,
)
from engine.interchange.network.patient360.connectors.server import (
    MOST_BYTES,
    NOT_OFFERED,
    ServerSession,
    find_patient,
    objects,
)
from engine.interchange.rest.resource.catalogue import CHART
from engine.security.oauth import (
    TokenRefusedError,
    UnusableKeyError,
    assertion,
    issued_token,
    signing_key,
    token_request,
)

Post = Callable[[str, dict[str, str], bytes], Awaitable[OutboundReply]]

ALGORITHMS: Final = frozenset({"ES384", "RS384"})  # those of SMART backend services


async def bearer(auth: ConnectorAuth, post: Post, now: datetime, new_id: Callable[[], str]) -> dict[str, str]:
    """Return the authorization header, {} if no auth is configured; OutboundError."""
    if not auth.given:
        return {}
    form = {"grant_type": "client_credentials"}
    if auth.scope:
        form["scope"] = auth.scope
    secret = "" if auth.client_secret is None else _read(auth.client_secret)
    if auth.private_key is not None:
        form |= _proof(auth, _read(auth.private_key), now, new_id)
    reply = await post(auth.token_url, *token_request(form, auth.client_id, secret, auth.method))
    try:
        token = issued_token(reply.status, _answer(reply), now)
    except TokenRefusedError as error:
        said = ", ".join((str(reply.status), *error.codes))
        raise OutboundError(f"gives no token ({said}); check client_id, its proof and scope") from error
    return {"authorization": f"Bearer {token.text}"}


def _answer(reply: OutboundReply) -> object:
    try:
        return orjson.loads(reply.body)
    except ValueError:
        return None


def _read(secret: Secret) -> str:
    try:
        return secret.read()
    except LookupError as error:
        raise OutboundError("is configured with a secret that cannot be read") from error


def _proof(auth: ConnectorAuth, text: str, now: datetime, new_id: Callable[[], str]) -> dict[str, str]:
    try:
        return assertion(auth, *signing_key(text, ALGORITHMS), now, new_id)
    except UnusableKeyError as error:
        text = "is configured with a private_key that signs neither ES384 (P-384) nor RS384 (RSA)"
        raise OutboundError(text) from error


PAGE: Final = 200
# The time limit of `interchange check`, and the begin of `fhirVersion`.
CHECK_SECONDS: Final = 10.0
NUMBERS: Final = {"R4": "4.0", "STU3": "3.0"}
# The types that are searched if the server has no $everything.
TYPES: Final = tuple(one.name for one in CHART)


@dataclass(frozen=True, slots=True)
class FhirServer:
    """A connector to another FHIR server, R4 or STU3."""

    name: str
    settings: Settings
    outbound: Outbound
    clock: Callable[[], datetime]
    new_id: Callable[[], str]
    organizations: int = 1

    async def retrieve(self, subject: RequestedPatient) -> AsyncIterator[RetrievedDocument]:
        """Yield the record as one Bundle, nothing without a sure match; SourceError."""
        try:
            async with asyncio.timeout(self.settings.timeout_s):
                document = await self._document(subject)
        except OutboundError as error:
            raise SourceError(f"The source {self.name} {error}.") from error
        except TimeoutError as error:
            text = f"The source {self.name} took longer than timeout_s ({self.settings.timeout_s:g} s)."
            raise SourceError(text) from error
        if document is not None:
            yield document

    async def complaint(self) -> str:
        """Return why the server cannot be used, '' if it authorises the service and has the configured version."""
        try:
            async with asyncio.timeout(CHECK_SECONDS), self._server() as server:
                status, statement = await server.get("metadata")
        except OutboundError as error:
            return str(error)
        except TimeoutError:
            return f"did not answer within {CHECK_SECONDS:g} seconds"
        number = statement.get("fhirVersion") if isinstance(statement, dict) else None
        if status != 200 or not isinstance(number, str):
            return f"shows no CapabilityStatement ({status}); check url"
        return "" if number.startswith(NUMBERS[self.settings.version]) else f"speaks FHIR {number}; mend version or url"

    @asynccontextmanager
    async def _server(self) -> AsyncIterator[ServerSession]:
        settings = self.settings
        async with self.outbound.peer(settings.ca_file, settings.timeout_s) as peer:
            server = ServerSession(peer, settings.url.rstrip("/"))
            server.authorization = await bearer(settings.auth, partial(server.send, "POST"), self.clock(), self.new_id)
            yield server

    async def _document(self, subject: RequestedPatient) -> RetrievedDocument | None:
        version = FhirVersion(self.settings.version)
        async with self._server() as server:
            base = server.base
            patient = await find_patient(server, subject, version)
            if patient is None:
                return None
            resources = await _record(server, patient, version)
        body = await asyncio.to_thread(_bundle, base, resources)
        organization = self.settings.organization or self.name
        return RetrievedDocument(
            organization, f"{base}/Patient/{patient['id']}", _latest(resources), FHIR, body, version
        )


async def _record(server: ServerSession, patient: JsonObject, version: FhirVersion) -> list[JsonObject]:
    """Return the patient and the patient's record, each resource once."""
    resources = {("Patient", patient["id"]): patient}
    whole = f"Patient/{patient['id']}/$everything?_count={PAGE}"
    if not await _gather(server, whole, resources):
        offered = [
            await _gather(server, f"{name_in(version, name)}?patient={patient['id']}&_count={PAGE}", resources)
            for name in TYPES
        ]
        if not any(offered):
            raise OutboundError("shows nothing of a record to the service; check its scopes")
    others = {key for key in resources if key[0] == "Patient"} - {("Patient", patient["id"])}
    return [resource for key, resource in resources.items() if key not in others]


async def _gather(server: ServerSession, address: str, resources: dict[tuple[str, str], JsonObject]) -> bool:
    """Add the resources of an address and its pages; False if the server does not offer it."""
    async for status, bundle in server.pages(address):
        if status in NOT_OFFERED:
            return False
        if status != 200:
            raise OutboundError(f"answered the question for a record with {status}")
        for entry in objects(bundle, "entry"):
            resource = entry.get("resource")
            if isinstance(resource, dict) and isinstance(resource.get("id"), str):
                resources.setdefault((str(resource.get("resourceType")), resource["id"]), resource)
    return True


def _latest(resources: list[JsonObject]) -> str:
    """Return the last change of the record, '' if the server does not give it."""
    metas = [resource.get("meta") for resource in resources]
    return max((str(one.get("lastUpdated", "")) for one in metas if isinstance(one, dict)), default="")


def _bundle(base: str, resources: list[JsonObject]) -> bytes:
    """Return resources as one Bundle, with absolute URLs of attachments."""
    entries = []
    for resource in resources:
        for content in objects(resource, "content"):
            attachment = content.get("attachment")
            if not isinstance(attachment, dict) or not isinstance(attachment.get("url"), str):
                continue
            if ":" not in attachment["url"]:
                attachment["url"] = f"{base}/{attachment['url']}"
        entries.append({"fullUrl": f"{base}/{resource['resourceType']}/{resource['id']}", "resource": resource})
    try:
        body = write_json({"resourceType": "Bundle", "type": "collection", "entry": entries})
    except TypeError as error:
        raise OutboundError("has a record with more levels than are read") from error
    if len(body) > MOST_BYTES:
        raise OutboundError("has a record larger than is read")
    return body
