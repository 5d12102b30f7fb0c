"""/.well-known/smart-configuration (SMART App Launch 2.2)."""

from typing import Final

from engine.config.service import ServiceConfiguration
from engine.interchange.core.audit.reading import NAME as AUDIT_EVENT
from engine.interchange.kernel.exact import write_json
from engine.interchange.rest.resource.catalogue import KEPT
from engine.interchange.tokens.oauth.assertion import ALGORITHMS, SECRET_ALGORITHM
from engine.interchange.tokens.oauth.identity import ALGORITHM
from engine.interchange.tokens.oauth.scope import ANY, right
from engine.interchange.web.oauth.grants import GRANTS

PATH: Final = "/.well-known/smart-configuration"
OPENID_PATH: Final = "/.well-known/openid-configuration"

AUTHENTICATION_METHODS: Final = (
    "client_secret_basic",
    "client_secret_post",
    "client_secret_jwt",
    "private_key_jwt",
    "none",
)
CAPABILITIES: Final = (
    "launch-standalone",
    "context-standalone-patient",
    "sso-openid-connect",
    "client-public",
    "client-confidential-symmetric",
    "client-confidential-asymmetric",
    "permission-offline",
    "permission-user",
    "permission-patient",
    "permission-v1",
    "permission-v2",
)
KEPT_TYPES: Final = frozenset(name.lower() for name in KEPT) | {ANY, AUDIT_EVENT.lower()}


def smart_configuration(configuration: ServiceConfiguration) -> bytes:
    """Return the document; its scopes are those that a client is registered for and that grant something."""
    oauth = f"{configuration.token_url}/oauth"
    scopes = sorted({scope for client in configuration.clients.values() for scope in client.scopes if works(scope)})
    signed = [SECRET_ALGORITHM, *ALGORITHMS.values()]
    return write_json(
        {
            "issuer": configuration.token_url,
            "jwks_uri": f"{oauth}/jwks",
            "authorization_endpoint": f"{oauth}/authorize",
            "token_endpoint": f"{oauth}/token",
            "userinfo_endpoint": f"{oauth}/userinfo",
            "introspection_endpoint": f"{oauth}/info",
            "revocation_endpoint": f"{oauth}/cancel",
            "grant_types_supported": list(GRANTS),
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": AUTHENTICATION_METHODS,
            "token_endpoint_auth_signing_alg_values_supported": signed,
            "introspection_endpoint_auth_methods_supported": AUTHENTICATION_METHODS[:-1],
            "introspection_endpoint_auth_signing_alg_values_supported": signed,
            "revocation_endpoint_auth_methods_supported": AUTHENTICATION_METHODS,
            "revocation_endpoint_auth_signing_alg_values_supported": signed,
            "scopes_supported": scopes,
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": [ALGORITHM],
            "claims_supported": ["iss", "sub", "aud", "exp", "iat", "nonce", "name", "fhirUser"],
            "capabilities": CAPABILITIES,
        }
    )


def works(scope: str) -> bool:
    """Say whether a scope grants anything: a known flag, or a type that the service stores."""
    granted = right(scope)
    return granted is not None and (not granted.access or granted.type in KEPT_TYPES)
