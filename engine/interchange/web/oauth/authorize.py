"""Authorization requests (RFC 6749 section 4.1.1) and their answers."""

from collections import Counter
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, urlencode

from engine.config.account import AUTHORIZATION_CODE, Client
from engine.config.service import ServiceConfiguration
from engine.errors import ServiceError
from engine.interchange.tokens.code import CHALLENGE, Authorization
from engine.interchange.tokens.fault import OAuthError
from engine.interchange.tokens.scope import LAUNCH, requested_scope

# The known parameters; RFC 6749 section 3.1: others are ignored.
PARAMETERS: Final = (
    "response_type",
    "client_id",
    "redirect_uri",
    "scope",
    "state",
    "code_challenge",
    "code_challenge_method",
    "aud",
    "nonce",
    "prompt",
)
# The value of `prompt` that forbids any page.
NO_PROMPT: Final = "none"
Pairs = list[tuple[str, str]]


class UnknownCallerError(ServiceError):
    """Client or redirect address is not valid: the error is shown to the person, without a redirect."""


class SentBackError(ServiceError):
    """The request is refused with a redirect to the client, at `location`."""

    def __init__(self, location: str) -> None:
        super().__init__("sent back")
        self.location = location


@dataclass(frozen=True, slots=True)
class AuthorizationRequest:
    """A valid authorization request; `state` is None if the client sent none, `text` is the request as sent.

    `silent`: no page may be shown (`prompt=none`, OpenID Connect Core 3.1.2.1).
    """

    client_id: str
    client: Client
    scope: str
    redirect_uri: str
    challenge: str
    state: str | None
    nonce: str
    silent: bool
    text: str

    @property
    def wants_patient(self) -> bool:
        """Whether the person chooses a patient."""
        return LAUNCH in self.scope.split()

    def allowed_by(self, user: str, patient: str) -> Authorization:
        """Return the authorization that a user gives, for one patient; '' for none."""
        return Authorization(self.client_id, user, self.scope, self.redirect_uri, self.challenge, patient, self.nonce)

    def answer(self, **parameters: str) -> str:
        """Return the redirect address with an answer and the client's state."""
        return location(self.redirect_uri, parameters, self.state)

    def refusal(self, code: str, description: str) -> str:
        """Return the redirect address with an error."""
        return self.answer(error=code, error_description=description)


def read_request(configuration: ServiceConfiguration, pairs: Pairs) -> AuthorizationRequest:
    """Return a request; UnknownCallerError if a redirect is not safe, SentBackError for other errors."""
    given = Counter(name for name, _ in pairs)
    fields = {name: value for name, value in pairs if name in PARAMETERS}
    client_id, redirect_uri = fields.get("client_id", ""), fields.get("redirect_uri", "")
    client = configuration.clients.get(client_id)
    if client is None or client.disabled or given["client_id"] > 1:
        raise UnknownCallerError("The application that sent you here is not registered.")
    if redirect_uri not in client.redirect_uris or given["redirect_uri"] > 1:
        raise UnknownCallerError("The application that sent you here gave a return address that is not registered.")
    state = fields.get("state") if given["state"] == 1 else None
    try:
        _check_single(given)
        _check(configuration, client, fields)
        scope = requested_scope(client, fields.get("scope", ""), chooses=True)
    except OAuthError as error:
        refusal = {"error": error.code, "error_description": error.description}
        raise SentBackError(location(redirect_uri, refusal, state)) from error
    challenge, nonce = fields.get("code_challenge", ""), fields.get("nonce", "")
    silent = fields.get("prompt") == NO_PROMPT
    return AuthorizationRequest(
        client_id, client, scope, redirect_uri, challenge, state, nonce, silent, urlencode(fields)
    )


def location(redirect_uri: str, parameters: dict[str, str], state: str | None) -> str:
    """Return a redirect address with parameters added to its query; `state` None is left out."""
    query = parameters if state is None else {**parameters, "state": state}
    joint = "&" if "?" in redirect_uri else "?"
    return f"{redirect_uri}{joint}{urlencode(query, quote_via=quote)}"


def _check_single(given: Counter[str]) -> None:
    repeated = [name for name in PARAMETERS if given[name] > 1]
    if repeated:
        raise OAuthError("invalid_request", f"{repeated[0]} is given more than once.")


def _check(configuration: ServiceConfiguration, client: Client, fields: dict[str, str]) -> None:
    kind = fields.get("response_type")
    if not kind:
        raise OAuthError("invalid_request", "response_type is missing.")
    if kind != "code":
        raise OAuthError("unsupported_response_type", "Use response_type=code.")
    if AUTHORIZATION_CODE not in client.grants:
        raise OAuthError("unauthorized_client", "The client may not use the grant authorization_code.")
    _check_challenge(client, fields)
    prompts = fields.get("prompt", "").split()
    if NO_PROMPT in prompts and len(prompts) > 1:
        raise OAuthError("invalid_request", "prompt=none cannot be combined with another value.")
    bases = {f"{configuration.base_url}/fhir", f"{configuration.base_url}/fhir/R4"}
    if "aud" in fields and fields["aud"].rstrip("/") not in bases:
        raise OAuthError("invalid_request", "aud is not the address of this service.")


def _check_challenge(client: Client, fields: dict[str, str]) -> None:
    challenge, method = fields.get("code_challenge"), fields.get("code_challenge_method")
    if challenge is None and method is None:
        if client.public:
            raise OAuthError("invalid_request", "A client without a secret needs a code_challenge (RFC 7636).")
        return
    # The default method is `plain`, which does not protect against a reader of the request.
    if method != "S256":
        raise OAuthError("invalid_request", "Use code_challenge_method=S256.")
    if challenge is None or not CHALLENGE.fullmatch(challenge):
        raise OAuthError("invalid_request", "code_challenge must be a SHA-256 hash in base64url.")
