"""Stores a Subscription and its row for the matching in one commit, and switches off those past their end."""

import secrets
from functools import partial
from typing import Final
from urllib.parse import urlsplit

from engine.config.service import Tenant
from engine.config.text import is_host
from engine.fhir.json import JsonObject
from engine.fhir.schema import FhirVersion
from engine.interchange.core.exchange import FhirRequest
from engine.interchange.core.service import Service
from engine.interchange.events.subscriptions.header import NONCE_BYTES, Lines, masked, seal, settle_lines, unseal
from engine.interchange.kernel.outcome import Category, refuse
from engine.interchange.rest.resource.definition import SUBSCRIPTION
from engine.interchange.rest.subscription_criteria import Criteria, parse_criteria
from engine.interchange.store.notification import (
    NotificationOutcome,
    Subscribed,
    drop_subscription,
    end_waiting,
    find_subscription,
    other_active,
    over,
    put_subscription,
    switch_off,
)
from engine.interchange.store.search.date import span
from engine.interchange.store.transaction import Follower, StoredVersion, Transaction, milliseconds
from engine.interchange.tokens.role import may
from engine.interchange.tokens.scope import allows
from engine.interchange.tokens.vault import Principal

ACTIVE: Final = "active"
OFF: Final = "off"
# The status that a client may send, and the one that is stored.
STATUSES: Final = {"requested": ACTIVE, ACTIVE: ACTIVE, OFF: OFF}
PAYLOAD: Final = "application/fhir+json"
REST_HOOK: Final = "rest-hook"
LONGEST_ENDPOINT: Final = 2048
END_PASSED: Final = "Its end has passed."


def settle_subscription(
    service: Service, transaction: Transaction, request: FhirRequest, resource: JsonObject, live: StoredVersion | None
) -> JsonObject:
    """Return a Subscription as it is stored: active at once, its header lines without their values.

    `live` is the version that it replaces, None for a new one. RefusedError: 422 for what is not offered, or one
    active subscription too many; 403 if the token may not read what it subscribes to.
    """
    channel = resource["channel"]
    _check_channel(channel)
    criteria = parse_criteria(resource["criteria"], request.version, service.configuration.base_url)
    _check_rights(service, request.principal, criteria)
    former = find_subscription(transaction.connection, transaction.tenant, request.id) if live is not None else None
    lines = settle_lines(tuple(channel.get("header", ())), _former_lines(service, former, channel["endpoint"]))
    end_ms = _end(resource)
    status = STATUSES.get(resource["status"])
    if status is None:
        raise _wrong("A client asks for requested or active, or switches off.", "status")
    over = end_ms is not None and end_ms <= milliseconds(transaction.at)
    active = status == ACTIVE and not over
    if active:
        _check_number(service.configuration.tenants[request.principal.tenant], transaction, request.id)
    elif former is not None and former.active:
        end_waiting(
            transaction.connection,
            transaction.tenant,
            request.id,
            milliseconds(transaction.at),
            NotificationOutcome.OFF,
        )
    row = Subscribed(
        transaction.tenant,
        request.id,
        "STU3" if request.version is FhirVersion.STU3 else "R4",
        criteria.type,
        criteria.text,
        channel["endpoint"],
        seal(service.seal_secret, transaction.tenant, request.id, lines, secrets.token_bytes(NONCE_BYTES)),
        int(active),
        end_ms,
    )
    anew = former is None or (active and not former.active) or former.endpoint != row.endpoint
    put_subscription(transaction, row, anew=anew)
    settled = {**resource, "status": ACTIVE if active else OFF}
    settled.pop("error", None)
    error = END_PASSED if over and status == ACTIVE else _kept_error(live)
    if error and not active:
        settled["error"] = error
    return {**settled, "channel": {**channel, "header": masked(lines)}} if lines else settled


def _check_channel(channel: JsonObject) -> None:
    if channel["type"] != REST_HOOK:
        raise _wrong("The only channel is rest-hook.", "channel.type", Category.NOT_OFFERED)
    if channel.get("payload", PAYLOAD) != PAYLOAD:
        raise _wrong(f"The payload is {PAYLOAD}: the whole resource.", "channel.payload", Category.NOT_OFFERED)
    if not _is_endpoint(channel["endpoint"]):
        text = "The endpoint is an address of the form https://host/path, without user and fragment."
        raise _wrong(text, "channel.endpoint")


def _is_endpoint(text: str) -> bool:
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return False
    plain = text.isascii() and text.isprintable() and " " not in text and len(text) <= LONGEST_ENDPOINT
    own = parts.scheme == "https" and parts.username is None and not parts.fragment and (port is None or port > 0)
    return plain and own and is_host(parts.hostname or "")


def _check_rights(service: Service, principal: Principal, criteria: Criteria) -> None:
    """RefusedError (403) if the token may not read the type; its patient context is checked elsewhere."""
    for type_name, action in criteria.actions:
        confined = bool(principal.patient) and allows(principal.scopes, type_name, "r")
        if not confined and not may(service.configuration, principal, type_name, "r", action):
            text = f"The token may not read {type_name}, which this subscription would send."
            raise refuse(Category.FORBIDDEN, text, location="http.Authorization")


def _check_number(tenant: Tenant, transaction: Transaction, subscription_id: str) -> None:
    if other_active(transaction, subscription_id) >= tenant.active_subscription_limit:
        text = f"{tenant.active_subscription_limit} subscriptions are active (active_subscription_limit):"
        text += " switch one off, or delete it."
        raise refuse(Category.RULE, text, location=f"{SUBSCRIPTION}.status", detail="active-subscription-limit")


def _former_lines(service: Service, former: Subscribed | None, endpoint: str) -> Lines | None:
    """Return the header lines whose values may be taken over: None for another server, which must not learn them."""
    if former is None or _server(former.endpoint) != _server(endpoint):
        return None
    return unseal(service.seal_secret, former.tenant, former.id, former.headers)


def _server(endpoint: str) -> tuple[str, int]:
    parts = urlsplit(endpoint)
    return parts.hostname or "", parts.port or 443


def _end(resource: JsonObject) -> int | None:
    period = span(resource["end"]) if "end" in resource else None
    return period[1] if period is not None else None


def _kept_error(live: StoredVersion | None) -> str:
    """Return why the service switched the subscription off, '' for no reason."""
    return str(live.resource().get("error", "")) if live is not None else ""


def _wrong(text: str, element: str, category: Category = Category.INVALID) -> Exception:
    return refuse(category, text, location=f"{SUBSCRIPTION}.{element}")


# Subscriptions that one call ends.
MOST: Final = 100


def end_subscription(transaction: Transaction, subscription_id: str, reason: str) -> bool:
    """Switch an active subscription off, with the reason in its `error`; False if it is not active.

    Its waiting events are not sent.
    """
    row = find_subscription(transaction.connection, transaction.tenant, subscription_id)
    stored = transaction.get(SUBSCRIPTION, subscription_id)
    if row is None or not row.active or stored is None or stored.deleted:
        return False
    switch_off(transaction, subscription_id)
    end_waiting(
        transaction.connection,
        transaction.tenant,
        subscription_id,
        milliseconds(transaction.at),
        NotificationOutcome.OFF,
    )
    transaction.update(stored, {**stored.resource(), "status": OFF, "error": reason})
    return True


async def end_those_over(service: Service) -> int:
    """Switch off the subscriptions whose end has passed; return their number."""
    rows = over(service.store.reader(), milliseconds(service.clock()), MOST)
    ended = [(tenant, row_id) for tenant, row_id in rows if tenant in service.configuration.tenants]
    for tenant, row_id in ended:
        await service.store.write(tenant, partial(end_subscription, subscription_id=row_id, reason=END_PASSED))
    return len(ended)


def follower(transaction: Transaction, before: JsonObject | None, after: JsonObject | None) -> None:
    """Delete the row of a deleted subscription, and end its waiting events."""
    if before is not None and after is None:
        drop_subscription(transaction, before["id"])
        end_waiting(
            transaction.connection,
            transaction.tenant,
            before["id"],
            milliseconds(transaction.at),
            NotificationOutcome.DELETED,
        )


FOLLOWERS: Final[dict[str, Follower]] = {SUBSCRIPTION: follower}
