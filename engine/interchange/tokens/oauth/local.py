"""Tokens for local administrators, written into the service's database, whether the service runs or not."""

import asyncio
from collections.abc import Callable
from datetime import datetime

from engine.config.service import ServiceConfiguration
from engine.errors import UsageError
from engine.interchange.store.place import Place, open_known
from engine.interchange.store.store import Store
from engine.interchange.tokens.oauth.scope import OFFLINE, PERSONAL, granted, right
from engine.interchange.tokens.oauth.vault import Bearer, Issued, Vault


def issue_locally(
    configuration: ServiceConfiguration,
    database: Place,
    client: str,
    scope: str,
    clock: Callable[[], datetime],
    new_token: Callable[[], str],
) -> Issued:
    """Return a new access token of a client; with the scope `offline_access` a refresh token too.

    `scope` '' means all registered scopes; scopes without access to FHIR (`offline_access`) need no registration.
    UsageError: unknown client or scope; StartError: no service's database.
    """
    registered = configuration.clients.get(client)
    if registered is None:
        raise UsageError(f"there is no client {client!r}; the file has: {', '.join(configuration.clients) or 'none'}")
    scopes = tuple(scope.split()) or registered.scopes
    unknown = [one for one in scopes if right(one) is None]
    beyond = [one for one in scopes if not granted((*registered.scopes, *PERSONAL), (one,))]
    if unknown or not scopes:
        raise UsageError(f"no scope: {', '.join(unknown) or 'the client has none; give --scope'}")
    if beyond:
        raise UsageError(f"the client is not registered for {', '.join(beyond)}; add it to clients.{client}.scopes")
    # No service would know a token in a new database.
    open_known(database).close()
    store = Store(database, configuration.tenants, clock, {}, alone=False, environment=configuration.environment)
    try:
        vault = Vault(
            store, clock, new_token, (configuration.access_token_lifetime_s, configuration.refresh_token_lifetime_s)
        )
        version = configuration.tenants[registered.tenant].rest_api_version
        return asyncio.run(vault.issue(Bearer(client, "", " ".join(scopes), version), refresh=OFFLINE in scopes))
    finally:
        store.close()
