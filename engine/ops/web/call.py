"""One request on its way through a view: who asks, what came along, what it searches for, and how to answer."""

import asyncio
import secrets
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Coroutine, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, TypeVar
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from engine.config.sites import Sites
from engine.database.sqlite import SqliteError
from engine.errors import AdtEngineError, UnconfirmedOperationError, UsageError
from engine.journal.read.backlog import backlogs
from engine.ops.access.access import Access
from engine.ops.access.actor import Actor, Permission, may
from engine.ops.operations.duplicates import CountDuplicates
from engine.ops.operations.fields import NUMBERED, digits_of
from engine.ops.operations.operation import Operation
from engine.ops.operations.patients import MOST_NAMED, NameEntries
from engine.ops.operations.runner import Operations, admit
from engine.ops.sites.monitor import SiteMonitor
from engine.ops.sites.summary import site_views
from engine.ops.views.entry import NamedEntry
from engine.ops.web.headers import Cookies
from engine.ops.web.refusal import RefusedRequestError
from engine.ops.web.renderer import Renderer
from engine.ops.web.route import Free, Route
from engine.pipeline.engine import Engine
from engine.pipeline.post import HttpIntake

A = TypeVar("A")

FRESH_SECONDS: Final = 3.0


class HeldCounter:
    """The number of held deliveries, at most three seconds old; what was counted last where it cannot be counted."""

    def __init__(self, ticks: Callable[[], float] = time.monotonic) -> None:
        self._ticks = ticks
        self._held = 0
        self._at = float("-inf")

    async def held(self, engine: Engine) -> int:
        """Return it."""
        if self._ticks() - self._at > FRESH_SECONDS:
            self._at = self._ticks()
            try:
                found = await asyncio.to_thread(backlogs, engine.files.data, sorted(engine.dispatches))
            except (AdtEngineError, SqliteError):
                return self._held
            self._held = sum(one.held for one in found.values())
        return self._held


PAIRS_FRESH_SECONDS: Final = 30.0


class OpenPairs:
    """The number of new possible duplicates, at most 30 s old; what was counted last where it cannot be counted."""

    def __init__(self, ticks: Callable[[], float] = time.monotonic) -> None:
        self._ticks = ticks
        self._count = 0
        self._at = float("-inf")

    async def count(self, engine: Engine) -> int:
        """Return it."""
        if self._ticks() - self._at > PAIRS_FRESH_SECONDS:
            self._at = self._ticks()
            try:
                found = await asyncio.to_thread(CountDuplicates().read, engine.files.data)
            except (AdtEngineError, SqliteError):
                return self._count
            self._count = found.count
        return self._count

    def forget(self) -> None:
        """Count again when it is asked for next: something was decided."""
        self._at = float("-inf")


SHARED_SECONDS: Final = 1.9
MOST_SHARED: Final = 64


class SharedAnswers:
    """What streams of several browsers show alike: answers of operations, asked once for all, at most 1.9 s old."""

    def __init__(self, ticks: Callable[[], float] = time.monotonic) -> None:
        self._ticks = ticks
        self._kept: dict[Hashable, tuple[float, asyncio.Task[Any]]] = {}

    async def of(self, key: Hashable, ask: Callable[[], Coroutine[Any, Any, A]]) -> A:
        """Return the answer that is kept under a key, or what `ask` finds; an error is everybody's who waits for it."""
        now = self._ticks()
        at, task = self._kept.get(key, (float("-inf"), None))
        if task is None or now - at > SHARED_SECONDS:
            if len(self._kept) >= MOST_SHARED:
                self._kept.clear()
            task = asyncio.create_task(ask())
            # Nobody may be left to hear of an error.
            task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
            self._kept[key] = now, task
        # One browser that leaves takes nothing from the others.
        found: A = await asyncio.shield(task)
        return found


MOST_KEPT: Final = 2_000
MOST_OF_ONE: Final = 50

Criteria = Mapping[str, Any]


class Searches:
    """The searches of all sessions, each found by its own session only; the oldest are forgotten first."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, str], Criteria] = OrderedDict()

    def keep(self, owner: str, criteria: Criteria) -> str:
        """Keep what the owner of a session searches for and return its id."""
        name = secrets.token_urlsafe(12)
        self._kept[owner, name] = dict(criteria)
        mine = [key for key in self._kept if key[0] == owner]
        for key in mine[:-MOST_OF_ONE]:
            del self._kept[key]
        while len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)
        return name

    def find(self, owner: str, name: str) -> Criteria | None:
        """Return what is searched for under an id; None where the owner's session has no such search."""
        return self._kept.get((owner, name))

    def forget(self, owner: str) -> None:
        """Forget all searches of a session."""
        for key in [key for key in self._kept if key[0] == owner]:
            del self._kept[key]


# What is typed after `g` to go to a page.
KEYS: Final[Mapping[str, str]] = {
    "/overview": "o",
    "/alerts": "a",
    "/messages": "m",
    "/lanes": "h",
    "/runs": "r",
    "/channels": "c",
    "/codes": "u",
    "/duplicates": "d",
    "/reasons": "s",
    "/help": "e",
    "/audit": "t",
    "/users": "p",
    "/sites": "i",
}
# In the menu only where sites are configured.
SITES: Final = "/sites"


@dataclass(slots=True)
class WebContext:
    """The context of all views: made once for a running engine."""

    engine: Engine
    operations: Operations
    access: Access
    clock: Callable[[], datetime]
    routes: tuple[Route, ...]
    cookies: Cookies
    posts: HttpIntake
    exposed: bool
    renderer: Renderer = field(default_factory=Renderer)
    searches: Searches = field(default_factory=Searches)
    tally: HeldCounter = field(default_factory=HeldCounter)
    sites: SiteMonitor = field(default_factory=lambda: SiteMonitor(Sites))
    open_pairs: OpenPairs = field(default_factory=OpenPairs)
    shared: SharedAnswers = field(default_factory=SharedAnswers)
    streams: Counter[str] = field(default_factory=Counter)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    begun: set[asyncio.Task[None]] = field(default_factory=set)

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Begin what nobody waits for; it ends with the pages."""
        task = asyncio.create_task(work)
        self.begun.add(task)
        task.add_done_callback(self.begun.discard)


@dataclass(slots=True)
class WebCall:
    """One request. `actor` is None where nobody is signed in; `cookie` is of the session, or of a visitor.

    `renewed`: the session's new cookie, where the request made one. `held`: how many deliveries are held. `pairs`: how
    many possible duplicates are new.
    """

    request: Request
    context: WebContext
    route: Route
    actor: Actor | None = None
    cookie: str = ""
    renewed: str = ""
    form: Mapping[str, str] = field(default_factory=dict)
    held: int = 0
    pairs: int = 0

    @property
    def by(self) -> Actor:
        """Who asks; only for routes that need somebody."""
        if self.actor is None:
            raise RefusedRequestError(401)
        return self.actor

    @property
    def address(self) -> str:
        """From where the request came."""
        return self.request.client.host if self.request.client else ""

    @property
    def owner(self) -> str:
        """The name under which things are kept for who asks."""
        return self.by.name

    @property
    def csrf(self) -> str:
        """The token that forms of this session must carry."""
        return self.context.access.keys.csrf(self.cookie) if self.cookie else ""

    def confirmed(self) -> None:
        """UnconfirmedOperationError where the password must be typed once more."""
        if not self.by.confirmed:
            raise UnconfirmedOperationError("this needs your password again")

    def may(self, permission: Permission) -> bool:
        """Say whether who asks has a permission."""
        return self.actor is not None and may(self.actor.role, permission)

    def admitted(self, route: Route) -> bool:
        """True if a route is for the actor: never for one who is not signed in."""
        return self.actor is not None and (isinstance(route.needs, Free) or self.may(route.needs))

    def entry(self) -> int:
        """Return the entry that the address names; RefusedRequestError 404 where it is no number of one."""
        return numbered("entry", self.request.path_params.get("entry"), 404)

    def run(self) -> int:
        """Return the bulk run that the address names; RefusedRequestError 404 where it is no number of one."""
        return numbered("run", self.request.path_params.get("run") or self.asked("run"), 404)

    def asked(self, name: str) -> str:
        """Return a parameter of the address, '' where it is absent."""
        return self.request.query_params.get(name, "")

    def number(self, name: str) -> int | None:
        """Return a parameter of the address as a number; RefusedRequestError 400 where it is none."""
        text = self.asked(name)
        if not text:
            return None
        found = digits_of(text)
        if found is None:
            raise RefusedRequestError(400, f"{name} is not a number")
        return found

    async def perform(self, operation: type[Operation[A]], /, **given: object) -> A:
        """Do an operation in the name of who asks."""
        return await self.context.operations.perform(operation, self.by, given)

    async def share(self, operation: type[Operation[A]], /, **given: Hashable) -> A:
        """Do an operation that shows everybody the same and needs no audit; the answer may be one of 1.9 s ago."""
        admit(operation, self.by, given)
        key = (operation, *sorted(given.items()))
        return await self.context.shared.of(key, lambda: self.perform(operation, **given))

    @property
    def is_part(self) -> bool:
        """Whether a script asks for a part of the page that it shows."""
        return self.request.headers.get("hx-request") == "true"

    async def page(self, template: str, status: int = 200, /, **values: Any) -> Response:
        """Answer with a page."""
        return HTMLResponse(await self.part(template, **values), status)

    async def part(self, template: str, /, **values: Any) -> str:
        """Return a page, or a block of one, as text."""
        return await self.context.renderer.render(template, self._around() | values)

    def _open_to_all(self) -> list[str]:
        return sorted(name for name, feed in self.context.engine.feeds.items() if feed.channel.open_to_all)

    def _counts(self) -> dict[str, int]:
        bad = sum(view.kind == "bad" for view in site_views(self.context.sites.statuses()))
        alerts = len(self.context.engine.alerts.open())
        return {"/alerts": alerts, "/lanes": self.held, "/duplicates": self.pairs, SITES: bad}

    def _is_offered(self, route: Route) -> bool:
        return bool(route.label) and self.admitted(route) and (route.path != SITES or self.context.sites.is_used)

    def _around(self) -> dict[str, object]:
        path = self.request.url.path
        counts = self._counts() if self.actor is not None else {}
        menu = [
            {
                "path": route.path,
                "label": route.label,
                "here": path == route.path or path.startswith(f"{route.path}/"),
                "count": counts.get(route.path, 0),
                "counted": route.path in counts,
                "key": KEYS.get(route.path, ""),
            }
            for route in self.context.routes
            if self._is_offered(route)
        ]
        notice = NOTICES.get(self.asked("said"), "")
        may_do = {str(permission): self.may(permission) for permission in Permission}
        return {
            "menu": menu,
            "actor": self.actor,
            "csrf": self.csrf,
            "may": may_do,
            "open_to_all": self._open_to_all() if self.actor is not None else [],
            "notice": notice,
            "now": self.context.clock(),
        }


def numbered(name: str, text: object, status: int) -> int:
    """Return the entry, bulk run or alert that a text names; RefusedRequestError with a status where it names none.

    The text is not repeated: somebody may have pasted a patient's number there.
    """
    number = digits_of(text)
    try:
        return NUMBERED[name](number)
    except UsageError as error:
        raise RefusedRequestError(status, str(error)) from error


NOTICES: dict[str, str] = {
    "replayed": "The entry will be delivered again, in its original place.",
    "released": "The entry is released and will be retried.",
    "discarded": "The entry is discarded. What was waiting behind it continues.",
    "resolved": "Your choice is saved and the entry will be retried.",
    "edited": "The edited message is stored as a new entry.",
    "edited-waits": "The edited message is a new entry. It waits until the original is delivered or discarded.",
    "decided": "Your decision is on record.",
    "cleared": "Done.",
    "channel": "Done: see the state below.",
    "tried": "The destination is being tried now.",
    "published": "The mapping files are in force.",
    "taken-back": "The mapping files from before are in force again.",
    "shared": "A de-identified copy is in the mapping playground, for 30 days.",
    "unshared": "The copy is deleted.",
    "reloaded": "The files were reloaded; changes are in effect.",
    "account": "The account was updated.",
    "factor": "One-time codes are now required.",
    "signed-out": "You are signed out.",
    "password": "Your password was changed. Your other sessions have ended.",
    "run": "The run has started.",
    "paused": "The run pauses after its current entry.",
    "stopped": "The run will stop after its current entry.",
}


def form(path: str, operation: type[Operation[A]], *fields: str, to: str, notice: str, **fixed: object) -> Route:
    """Return the route of a form: the operation on these fields of it and on what the address names, then a page."""

    async def submit(call: WebCall) -> Response:
        given = {name: call.form.get(name, "") for name in fields}
        named = {name: numbered(name, text, 404) for name, text in call.request.path_params.items()}
        await call.perform(operation, **given, **named, **fixed)
        return go(to.format(**named), notice)

    return Route("POST", path, operation.permission, submit)


def go(path: str, notice: str = "") -> Response:
    """Send the browser to another page of ours, after a form; `notice` names the line shown there."""
    return Response(
        status_code=303,
        headers={"location": f"{path}{'&' if '?' in path else '?'}said={quote(notice)}" if notice else path},
    )


async def names_of(call: WebCall, entries: Iterable[int]) -> Mapping[int, NamedEntry]:
    """Return whom entries are about, by entry; nothing for who may not see patients."""
    wanted = sorted(set(entries)) if call.may(Permission.PHI) else []
    found: dict[int, NamedEntry] = {}
    for at in range(0, len(wanted), MOST_NAMED):
        named = await call.perform(NameEntries, entries=wanted[at : at + MOST_NAMED])
        found |= {one.entry: one for one in named}
    return found
