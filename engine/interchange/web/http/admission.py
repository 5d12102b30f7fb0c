"""The guard of every call to FHIR or the Chart API: authentication, rate, route, media types, authorization."""

from collections.abc import Callable
from contextlib import suppress
from urllib.parse import parse_qsl

from engine.interchange.core.exchange import Interaction
from engine.interchange.core.negotiation import FORM, FORMATS, PATCH, WRITABLE, acceptable, encoding, writable
from engine.interchange.core.service import Service
from engine.interchange.kernel.outcome import Category, Issue, RefusedError, refuse
from engine.interchange.rest.access import AdmittedInteraction, admit
from engine.interchange.tokens.account import former_principal, principal_of
from engine.interchange.tokens.vault import Principal, TokenKind
from engine.interchange.web.http.call import WITH_BODY, HttpCall
from engine.interchange.web.http.route import FhirRoute, wrong_method


def admit_call(
    service: Service, call: HttpCall, find: Callable[[], FhirRoute]
) -> tuple[FhirRoute, AdmittedInteraction]:
    """Admit a call to the route that `find` returns or refuses, and note on the call what is known of it.

    RefusedError, in this order: 401, 429, 404, 405, 415, 406, 403, and 400 for its parameters.
    """
    try:
        principal = _identify(service, call)
    except RefusedError:
        if call.former is not None:
            with suppress(RefusedError):
                _note(call, find())
        raise
    _throttle(service, principal)
    route = find()
    if call.method != route.interaction.method:
        raise wrong_method({route.interaction.method})
    _note(call, route)
    negotiate(call, route.interaction)
    return route, admit(service, principal, route.interaction, call.query)


def _note(call: HttpCall, route: FhirRoute) -> None:
    call.interaction, call.id, call.named = route.interaction, route.id, route.named


def _identify(service: Service, call: HttpCall) -> Principal:
    """Return the principal; RefusedError (401), after which `former` of the call names that of an expired token."""
    authorization = call.headers.get("authorization", "")
    try:
        call.principal = _authenticate(service, authorization)
    except RefusedError:
        token = service.vault.find_any(authorization.partition(" ")[2].strip())
        call.former = former_principal(service.configuration, token) if token is not None else None
        raise
    return call.principal


def _authenticate(service: Service, authorization: str) -> Principal:
    """Return the principal of an active token; RefusedError (401)."""
    kind, _, text = authorization.partition(" ")
    token = service.vault.find(text.strip()) if kind.lower() == "bearer" and text.strip() else None
    principal = principal_of(service.configuration, token) if token else None
    if token is None or principal is None or token.kind != TokenKind.ACCESS:
        raise _unauthorised(Category.LOGIN, "Send a valid access token as 'Authorization: Bearer'.", known=bool(text))
    if service.vault.seconds_left(token) <= 0:
        raise _unauthorised(Category.EXPIRED, "The access token has expired.", known=True)
    return principal


def _unauthorised(category: Category, text: str, *, known: bool) -> RefusedError:
    challenge = 'Bearer error="invalid_token"' if known else "Bearer"
    return RefusedError(category, (Issue(text, "http.Authorization"),), (("www-authenticate", challenge),))


def _throttle(service: Service, principal: Principal) -> None:
    """Refuse (429) a client above its configured rate."""
    limit = service.configuration.rate_limit
    seconds = service.throttle.wait(principal.client, limit, service.clock()) if limit else 0
    if seconds:
        issue = Issue(f"Too many calls; the next one may come in {seconds} seconds.", "http.Authorization")
        raise RefusedError(Category.THROTTLED, (issue,), (("retry-after", str(seconds)),))


def negotiate(call: HttpCall, interaction: Interaction | None = None) -> None:
    """Refuse an unsupported Content-Type (415) or Accept (406); `interaction` None for a document of the service."""
    kinds = _kinds(interaction) if interaction else WRITABLE
    raw, document = (interaction.raw, interaction.document) if interaction else (False, False)
    bodiless = interaction is not None and interaction.bodiless
    # A malformed query is refused later, after authorization.
    query = parse_qsl(call.query, keep_blank_values=True) if "_format" in call.query else []
    formats = [value for name, value in query if name == "_format"]
    media_type = call.headers.get("content-type", "")
    if call.method in WITH_BODY and not (raw or (bodiless and not media_type)) and not writable(media_type, kinds):
        raise _media_type(kinds)
    if call.method in WITH_BODY and encoding(call.headers.get("content-encoding", "")) == "?":
        issue = Issue("Send the body uncompressed, or compressed with gzip.", "http.Content-Encoding")
        raise RefusedError(Category.MEDIA_TYPE, (issue,), (("accept-encoding", "gzip"),))
    if any(value not in FORMATS for value in formats) or not (
        formats or acceptable(call.headers.get("accept", ""), raw=raw, document=document)
    ):
        raise refuse(Category.ACCEPT, "Only application/fhir+json is served.", location="http.Accept")


def _media_type(kinds: tuple[str, ...]) -> RefusedError:
    text = f"Send {kinds[0]}."
    # RFC 5789 section 2.2: Accept-Patch names the supported patch format.
    headers = (("accept-patch", ", ".join(PATCH)),) if kinds == PATCH else ()
    if headers:
        text = f"Send a JSON Patch (RFC 6902) as {PATCH[0]}; FHIRPath Patch and others are not taken."
    return RefusedError(Category.MEDIA_TYPE, (Issue(text, "http.Content-Type"),), headers)


def _kinds(interaction: Interaction) -> tuple[str, ...]:
    """Return the media types that an interaction accepts."""
    if interaction.form:
        return FORM
    return PATCH if interaction.code == "patch" else WRITABLE
