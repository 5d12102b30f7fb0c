"""GET and POST /oauth/authorize: sign-in, the choice of a patient, consent, and the redirect back to the client."""

import asyncio
import re
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from engine.fhir.json import JsonObject
from engine.fhir.schema import FhirVersion
from engine.interchange.core.exchange import FhirRequest, Prefer
from engine.interchange.core.service import Service
from engine.interchange.kernel.exact import read_resource
from engine.interchange.kernel.outcome import RefusedError
from engine.interchange.kernel.seal import seal, unseal
from engine.interchange.rest.resource.search import search
from engine.interchange.store.access import AccessRow, joined
from engine.interchange.store.transaction import milliseconds
from engine.interchange.tokens.fault import OAuthError
from engine.interchange.tokens.vault import Principal
from engine.interchange.web.http.tokens import read_form
from engine.interchange.web.oauth.authorize import (
    AuthorizationRequest,
    Pairs,
    SentBackError,
    UnknownCallerError,
    read_request,
)
from engine.interchange.web.oauth.endpoint import parse_fields, read_pairs
from engine.interchange.web.oauth.page import (
    PatientChoicePage,
    PatientOption,
    SignInPage,
    message_page,
    patient_page,
    security_policy,
    sign_in_page,
)
from engine.security.passwords import is_password, no_account
from engine.security.throttle import LogInThrottle
from engine.telemetry import logger

# The fields of the page and their search parameters.
FIELDS: Final = ("family", "given", "birthdate", "identifier")
MOST: Final = 20
NOTHING: Final = "Enter a name, a date of birth or a record number."
NOBODY: Final = "No patient fits. Check the spelling, or enter less."
UNREADABLE: Final = "This cannot be searched for. Dates are written as 1984-02-29."
MANY: Final = f"More than {MOST} patients fit; the first {MOST} are shown. Enter more to narrow it down."


async def find_people(
    service: Service, principal: Principal, fields: Mapping[str, str], address: str
) -> tuple[tuple[PatientOption, ...], str]:
    """Return the patients that match the page's fields, 20 at most, and a message, '' for none.

    The search is in the access log before the patients are shown.
    """
    query = tuple((name, fields[name].strip()) for name in FIELDS if fields.get(name, "").strip())
    if not query:
        return (), NOTHING
    version = FhirVersion.R4
    count = (("_count", str(MOST)),)
    request = FhirRequest(
        version, service.base(version), "Patient", "", (*query, *count), {}, Prefer(), principal, None
    )
    try:
        answer = await search(service, request)
    except RefusedError:
        return (), UNREADABLE
    bundle = read_resource(answer.body)
    people = tuple(_person(entry["resource"]) for entry in bundle.get("entry", ()))
    ids = joined(person.id for person in people)
    at_ms = milliseconds(service.clock())
    who = (principal.tenant, principal.client, principal.user, principal.role, address)
    row = AccessRow(at_ms, *who, "", version.value, "search-type", "Patient", "", ids, "done", answer.status)
    await service.recorder.record((row,))
    return people, MANY if bundle["total"] > len(people) else "" if people else NOBODY


def is_patient(service: Service, tenant: str, patient_id: str) -> bool:
    """Say whether a tenant has a patient of this id who is not merged into another."""
    standing = service.store.read(tenant, lambda transaction: transaction.standing("Patient", patient_id))
    return standing is not None and standing.survivor is None


def _person(patient: JsonObject) -> PatientOption:
    name: JsonObject = next(iter(patient.get("name", ())), {})
    called = " ".join(part for part in name.get("given", ()) if part)
    numbers = [one.get("value", "") for one in patient.get("identifier", ()) if _is_record_number(one)]
    parts = [f"{name.get('family', '')}, {called}", patient.get("birthDate", ""), patient.get("gender", ""), *numbers]
    return PatientOption(patient["id"], " · ".join(part for part in parts if part))


def _is_record_number(identifier: JsonObject) -> bool:
    codings = identifier.get("type", {}).get("coding", ())
    return any(coding.get("code") == "MR" for coding in codings)


PATH: Final = "/oauth/authorize"
COOKIE: Final = re.compile(r"[A-Za-z0-9_-]{20,64}")
# Each check of a password takes 64 MiB.
CHECKS_AT_ONCE: Final = 2
FORM_LIFETIME_MS: Final = 600_000
WRONG: Final = "User name or password is wrong."
STALE: Final = "This page was open for too long, or in another browser. Please sign in again."
PRIVATE: Final = {"referrer-policy": "no-referrer", "pragma": "no-cache"}


class SignIn:
    """The sign-in of one service; `new_secret` makes random secrets."""

    def __init__(self, service: Service, new_secret: Callable[[], str]) -> None:
        self._service = service
        self._new_secret = new_secret
        self._throttle = LogInThrottle(service.clock)
        self._checks = asyncio.Semaphore(CHECKS_AT_ONCE)

    def routes(self) -> list[Route]:
        """Return the routes of the sign-in."""
        return [Route(PATH, self._show, methods=["GET"]), Route(PATH, self._decide, methods=["POST"])]

    async def _show(self, request: Request) -> Response:
        try:
            asked = self._asked(read_pairs(request.scope["query_string"].decode("latin-1")))
        except (UnknownCallerError, SentBackError, ValueError) as error:
            return _refused(error)
        login = self._service.configuration.auth.auto_login_user
        if asked.silent and (not login or asked.wants_patient):
            code = "interaction_required" if login else "login_required"
            return _redirect(asked.refusal(code, "The person must be shown a page; prompt=none lets none be shown."))
        if not login:
            return self._form(request, asked, 200)
        user = self._service.configuration.users[login]
        if user.disabled or user.tenant != asked.client.tenant:
            return _redirect(asked.refusal("access_denied", "The user is of another organization."))
        return await self._signed_in(request, asked, login)

    async def _decide(self, request: Request) -> Response:
        try:
            fields = parse_fields(request.headers.get("content-type", ""), await read_form(request))
            asked = self._asked(read_pairs(fields.get("request", "")))
        except (UnknownCallerError, SentBackError, OAuthError, ValueError) as error:
            return _refused(error)
        login, decision = fields.get("username", "").strip(), fields.get("decision")
        chooses = "patient" in fields or decision == "find" or "chooses" in fields
        if not self._sealed(self._browser(request), asked, fields.get("seal", ""), login if chooses else ""):
            return self._form(request, asked, 400, login, STALE)
        if decision == "cancel":
            return _redirect(asked.refusal("access_denied", "The user cancelled."))
        chosen = self._chosen if chooses else self._proven
        return await chosen(request, asked, login, fields)

    async def _proven(
        self, request: Request, asked: AuthorizationRequest, login: str, fields: dict[str, str]
    ) -> Response:
        """Check the password of the sign-in page."""
        address = request.client.host if request.client else ""
        wait = self._throttle.begin(login, address)
        if wait:
            logger().warning("sign-in refused", client=asked.client_id, reason="throttled")
            alarm = f"Too many attempts. Please wait {wait.seconds} seconds, then try again."
            return self._form(request, asked, 429, login, alarm, {"retry-after": str(wait.seconds)})
        if not await self._is_user(asked, login, fields.get("password", "")):
            logger().warning("sign-in refused", client=asked.client_id, reason="password")
            return self._form(request, asked, 403, login, WRONG)
        self._throttle.succeed(login, address)
        return await self._signed_in(request, asked, login)

    async def _signed_in(self, request: Request, asked: AuthorizationRequest, login: str) -> Response:
        """Redirect to the client, or first to the choice of a patient if the client asks for one."""
        if asked.wants_patient:
            return self._choice(request, asked, login, {})
        return await self._allow(asked, login)

    async def _chosen(
        self, request: Request, asked: AuthorizationRequest, login: str, fields: dict[str, str]
    ) -> Response:
        """Handle the patient page: search for patients, or accept the chosen one."""
        user = self._service.configuration.users.get(login)
        if user is None or user.disabled or user.tenant != asked.client.tenant:
            return self._form(request, asked, 403, login, STALE)
        patient = fields.get("patient", "")
        if patient and is_patient(self._service, user.tenant, patient):
            return await self._allow(asked, login, patient)
        principal = Principal(asked.client_id, login, user.tenant, user.role, (), "")
        address = request.client.host if request.client else ""
        people, alarm = await find_people(self._service, principal, fields, address)
        return self._choice(request, asked, login, fields, people, alarm)

    def _asked(self, pairs: Pairs) -> AuthorizationRequest:
        return read_request(self._service.configuration, pairs)

    async def _allow(self, asked: AuthorizationRequest, login: str, patient: str = "") -> Response:
        return _redirect(asked.answer(code=await self._service.codes.issue(asked.allowed_by(login, patient))))

    async def _is_user(self, asked: AuthorizationRequest, login: str, password: str) -> bool:
        """Say whether a password is that of a user of the client's tenant; takes as long for an unknown user."""
        users = self._service.configuration.users
        user = users.get(login)
        known = user is not None and user.tenant == asked.client.tenant and user.may_sign_in
        if user is not None and known:
            hashed = user.password_hash
        else:
            hashed = no_account(one.password_hash for one in users.values())
        async with self._checks:
            right = await asyncio.to_thread(is_password, hashed, password)
        return known and right

    def _form(
        self,
        request: Request,
        asked: AuthorizationRequest,
        status: int,
        login: str = "",
        alarm: str = "",
        headers: dict[str, str] | None = None,
    ) -> Response:
        browser = self._browser(request) or self._new_secret()
        form = SignInPage(
            action=self._action,
            application=asked.client.name or asked.client_id,
            scopes=tuple(asked.scope.split()),
            hidden={"request": asked.text, "seal": self._seal(browser, asked)},
            login=login,
            alarm=alarm,
        )
        return self._shown(_page(sign_in_page(form), status, asked.redirect_uri, headers or {}), browser)

    def _choice(
        self,
        request: Request,
        asked: AuthorizationRequest,
        login: str,
        entered: dict[str, str],
        people: tuple[PatientOption, ...] = (),
        alarm: str = "",
    ) -> Response:
        """Return the patient page; its seal proves that this person has signed in."""
        browser = self._browser(request) or self._new_secret()
        seal_text = self._seal(browser, asked, login)
        choice = PatientChoicePage(
            action=self._action,
            application=asked.client.name or asked.client_id,
            hidden={"request": asked.text, "seal": seal_text, "username": login, "chooses": "1"},
            entered={name: entered.get(name, "") for name in FIELDS},
            people=people,
            alarm=alarm,
        )
        return self._shown(_page(patient_page(choice), 200, asked.redirect_uri, {}), browser)

    def _shown(self, answer: Response, browser: str) -> Response:
        # Lax: sent with the client's redirect to this page, not with a form of another site.
        answer.set_cookie(self._cookie, browser, path="/", secure=self._secure, httponly=True, samesite="lax")
        return answer

    def _seal(self, browser: str, asked: AuthorizationRequest, login: str = "") -> str:
        """Return the seal of a form, bound to this browser, this request and the time.

        `login`: also to this signed-in user.
        """
        until = milliseconds(self._service.clock()) + FORM_LIFETIME_MS
        return seal(self._service.seal_secret, _bound(browser, asked, login), (), until)

    def _sealed(self, browser: str, asked: AuthorizationRequest, text: str, login: str) -> bool:
        now = milliseconds(self._service.clock())
        try:
            unseal(self._service.seal_secret, _bound(browser, asked, login), text, now, "")
        except RefusedError:
            return False
        return bool(browser)

    def _browser(self, request: Request) -> str:
        """Return the browser's cookie, '' for none."""
        cookie = request.cookies.get(self._cookie, "")
        return cookie if COOKIE.fullmatch(cookie) else ""

    @property
    def _action(self) -> str:
        return f"{urlsplit(self._service.configuration.token_url).path}{PATH}"

    @property
    def _secure(self) -> bool:
        return self._service.configuration.token_url.startswith("https:")

    @property
    def _cookie(self) -> str:
        # `__Host-`: other hosts of the same domain cannot set it.
        return "__Host-sign-in" if self._secure else "sign-in"


def _bound(browser: str, asked: AuthorizationRequest, login: str) -> tuple[str, ...]:
    return ("patient", browser, asked.text, login) if login else ("sign-in", browser, asked.text)


def _refused(error: Exception) -> Response:
    if isinstance(error, SentBackError):
        return _redirect(error.location)
    text = str(error) if isinstance(error, UnknownCallerError) else "The request cannot be read."
    logger().warning("sign-in refused", reason="request", error=text)
    return _page(message_page("You cannot sign in from here", text), 400, "", {})


def _redirect(location: str) -> Response:
    return Response(b"", 302, {**PRIVATE, "location": location})


def _page(text: str, status: int, redirect_uri: str, headers: dict[str, str]) -> Response:
    policy = {"content-security-policy": security_policy(redirect_uri), "x-frame-options": "DENY"}
    return Response(text, status, {**PRIVATE, **policy, **headers}, "text/html")
