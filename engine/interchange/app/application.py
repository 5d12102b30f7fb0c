"""The service as an ASGI application and its background work: FHIR, Chart API, tokens, health, jobs, webhooks."""

import asyncio
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Final

from engine.clock import now
from engine.config.service import ServiceConfiguration
from engine.fhir.schema import FhirVersion, defects
from engine.interchange.clinical.ccda import export
from engine.interchange.core.audit.entry import clean
from engine.interchange.core.exchange import HttpAnswer
from engine.interchange.core.service import Service
from engine.interchange.events.messages import operation as messages
from engine.interchange.events.subscriptions.matching import SubscriptionMatcher
from engine.interchange.events.subscriptions.settling import FOLLOWERS
from engine.interchange.events.webhooks.sender import WebhookSender
from engine.interchange.events.webhooks.settling import delete_expired_events
from engine.interchange.jobs.job import EndEvent, Work, delete_expired_jobs
from engine.interchange.jobs.runner import Runner
from engine.interchange.network.document import search
from engine.interchange.network.patient360 import retrieve
from engine.interchange.network.patient360.connectors.configured import connectors_of
from engine.interchange.network.patient360.reading_bundle import read_document
from engine.interchange.orders import create, submit
from engine.interchange.orders.completion import followers
from engine.interchange.orders.laboratory.transmitter import Transmitter
from engine.interchange.rest.binary.temporary import take_expired
from engine.interchange.rest.history import take_old
from engine.interchange.rest.resource.catalogue import EDITION, INDEXERS
from engine.interchange.store.place import Place
from engine.interchange.store.store import Store
from engine.interchange.store.transaction import ChangeListeners
from engine.interchange.store.writer import StoreFailedError
from engine.interchange.tokens.code import AuthorizationCodes
from engine.interchange.tokens.vault import Vault
from engine.interchange.web.http.call import HttpCall
from engine.interchange.web.http.calls import Calls
from engine.interchange.web.http.charts import DOCUMENT
from engine.interchange.web.http.cors import Headers, let_in, preflight
from engine.interchange.web.http.hooks import Clock, Hooks
from engine.interchange.web.http.meter import Meter
from engine.interchange.web.http.pages import Pages
from engine.interchange.web.http.sign_in import SignIn
from engine.interchange.web.http.wire import Receive, RequestBody, Scope, Send, read_headers, send_answer, takes_gzip
from engine.interchange.web.viewer.login_flow import LoginFlow
from engine.interchange.web.viewer.ordering import OrderPages
from engine.interchange.web.viewer.session import ORIGIN
from engine.interchange.web.viewer.site import Site

# The base of the Chart API.
CHART: Final = "/chart/v1/"
FHIR_JSON: Final = "application/fhir+json"
# The work of each kind of job; a kind is named like its operation, without the `$`.
WORK: Final[Mapping[str, Work]] = {
    export.KIND: export.work,
    search.KIND: search.work,
    create.KIND: create.work,
    submit.KIND: submit.work,
    retrieve.KIND: retrieve.retrieval(connectors_of, read_document),
}

# Kinds of jobs whose end is an event for subscribers.
END_EVENTS: Final[Mapping[str, EndEvent]] = {retrieve.KIND: retrieve.END_EVENT}
MINIMAL: Final = {"resourceType": "Patient"}


def new_id() -> str:
    """Return a random logical id: 24 hexadecimal digits."""
    return secrets.token_hex(12)


def new_token() -> str:
    """Return a random token."""
    return secrets.token_urlsafe(32)


def create_app(
    configuration: ServiceConfiguration,
    database: Place,
    *,
    clock: Callable[[], datetime] = now,
    ids: Callable[[], str] = new_id,
    tokens: Callable[[], str] = new_token,
    works: Mapping[str, Work] = WORK,
) -> "ServiceApp":
    """Return the service over a database; close it when done. StartError: the database cannot be used.

    `works` are the kinds of jobs, run by the app's `runner`.
    """
    own_clock = Clock(clock)
    environment = configuration.environment
    store = Store(
        database,
        configuration.tenants,
        own_clock,
        INDEXERS,
        environment=environment,
        edition=EDITION,
        listeners=ChangeListeners(
            {**followers(configuration.service_identifier_system), **FOLLOWERS, **messages.FOLLOWERS},
            SubscriptionMatcher(),
        ),
    )
    lifetimes = (configuration.access_token_lifetime_s, configuration.refresh_token_lifetime_s)
    vault = Vault(store, own_clock, tokens, lifetimes)
    for version in FhirVersion:
        defects(MINIMAL, version)
    codes = AuthorizationCodes(store, vault, own_clock, tokens)
    service = Service(configuration, store, vault, codes, own_clock, ids, store.secret("seal", tokens().encode()))
    store.notify = service.webhook_wakeup.set
    hooks = Hooks(own_clock) if configuration.test_hooks else None
    return ServiceApp(service, hooks, SignIn(service, tokens), partial(Runner, service, works, END_EVENTS))


class ServiceApp:
    """The ASGI application of `service`: `runner` runs its jobs, `transmitter` sends orders, `sender` webhooks."""

    def __init__(
        self, service: Service, hooks: Hooks | None, sign_in: SignIn, new_runner: Callable[[], Runner]
    ) -> None:
        self.service = service
        self._new_runner = new_runner
        meter = self._meter = Meter(service.store, service.clock)
        self.renew()
        self.refused = meter.refused
        service.job_signals.ended = meter.job_ended
        self._calls = Calls(service, hooks, meter)
        site = Site(service, self._calls, LoginFlow(service, new_token, meter.issued))
        orders = OrderPages(service, site, new_token)
        self._pages = Pages(service, hooks, meter, sign_in, [*site.routes(), *orders.routes()])
        self._prefix = service.configuration.path_prefix

    def renew(self) -> None:
        """Replace the workers for jobs, orders and webhooks after the old ones were cancelled."""
        self.runner = self._new_runner()
        self.transmitter, self.sender = Transmitter(self.service), WebhookSender(self.service)
        self.transmitter.count = self._meter.transmitted
        self.sender.count = self._meter.notified

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        headers = read_headers(scope)
        request_id = _request_id(headers.get("x-request-id", ""))
        path = scope["path"].removeprefix(self._prefix)
        try:
            answer = preflight(self.service.configuration, scope["method"], headers)
            if answer is not None:
                await send_answer(send, answer, "", request_id)
            elif path.startswith(CHART) or (
                (path.startswith("/fhir/") or path == "/fhir") and path not in self._pages.discovery
            ):
                # HEAD is GET; the server omits the body.
                method = "GET" if scope["method"] == "HEAD" else scope["method"]
                origin = (self._address(scope, headers), clean(request_id))
                query = scope["query_string"].decode("latin-1")
                chart = path.startswith(CHART)
                below = path[len(CHART) if chart else 6 :]
                call = HttpCall(method, below, query, headers, RequestBody(receive), origin, chart=chart)
                answer = self._shared(await self._calls.answer(call, request_id), call)
                gzip = takes_gzip(headers.get("accept-encoding", ""))
                await send_answer(send, answer, answer.media_type or FHIR_JSON, request_id, gzip=gzip)
            else:
                shared = self._let_in(headers, "", public=path in self._pages.discovery)
                origin = (self._address(scope, headers), clean(request_id))
                await self._pages({**scope, "path": path, ORIGIN: origin}, receive, send, request_id, shared)
        except ConnectionError:
            return

    def _address(self, scope: Scope, headers: Mapping[str, str]) -> str:
        """Return the client's address of a request; behind a proxy the last of X-Forwarded-For."""
        if self.service.configuration.behind_proxy and "x-forwarded-for" in headers:
            return headers["x-forwarded-for"].rpartition(",")[2].strip()[:64]
        return scope["client"][0] if scope["client"] else ""

    def _shared(self, answer: HttpAnswer, call: HttpCall) -> HttpAnswer:
        """Return an answer with its CORS headers."""
        client = call.principal.client if call.principal is not None else ""
        shared = self._let_in(
            call.headers, client, public=call.path.endswith("metadata") or (call.chart and call.path == DOCUMENT)
        )
        return replace(answer, headers=(*answer.headers, *shared)) if shared else answer

    def _let_in(self, headers: Mapping[str, str], client: str, *, public: bool) -> Headers:
        origin = headers.get("origin")
        return let_in(self.service.configuration, origin, client, public=public) if origin else ()

    @property
    def stopping(self) -> bool:
        """Whether the service is draining: no more requests should come."""
        return self._pages.stopping

    @stopping.setter
    def stopping(self, stopping: bool) -> None:
        self._pages.stopping = stopping

    def close(self) -> None:
        """Finish pending writes and close the database."""
        self.service.store.close()


def _request_id(sent: str) -> str:
    usable = 0 < len(sent) <= 128 and sent.isascii() and sent.isprintable()
    return sent if usable else secrets.token_hex(8)


LOOK_SECONDS: Final = 0.25
EVERY_SECONDS: Final = 3600
# Each deletes a few rows per transaction, as other writes wait meanwhile.
SWEEPS: Final = (take_old, delete_expired_jobs, take_expired, delete_expired_events)


async def work(app: ServiceApp) -> None:
    """Run the background work while this process holds the store's term, until cancelled."""
    store = app.service.store
    while True:
        if term := store.term:
            await _do(app, term)
            app.renew()
        await asyncio.sleep(LOOK_SECONDS)


async def _do(app: ServiceApp, term: int) -> None:
    works = (app.runner.run(), app.transmitter.run(), app.sender.run(), tidy(app.service))
    tasks = [asyncio.create_task(one) for one in works]
    try:
        while app.service.store.term == term:  # noqa: ASYNC110 - the time, not an event, may end it
            await asyncio.sleep(LOOK_SECONDS)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def tidy(service: Service) -> None:
    """Delete expired rows, now and every hour, until cancelled or the store fails for good."""
    while not service.store.failed:
        for sweep in SWEEPS:
            # A busy store is tried again in an hour.
            with suppress(StoreFailedError):
                await sweep(service)
        await asyncio.sleep(EVERY_SECONDS)
