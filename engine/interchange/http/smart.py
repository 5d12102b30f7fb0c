"""What the service says of its sign-in and tokens: /.well-known/smart-configuration (SMART App Launch 2.2)."""

from typing import Final

from engine.config.service import ServiceConfiguration
from engine.interchange.exact import write_json
from engine.interchange.oauth.assertion import ALGORITHMS, SECRET_ALGORITHM
from engine.interchange.oauth.grants import GRANTS

AUTHENTICATION_METHODS: Final = (
    "client_secret_basic",
    "client_secret_post",
    "client_secret_jwt",
    "private_key_jwt",
    "none",
)
CAPABILITIES: Final = (
    "launch-standalone",
    "client-public",
    "client-confidential-symmetric",
    "client-confidential-asymmetric",
    "permission-offline",
    "permission-user",
    "permission-v1",
)


def smart_configuration(configuration: ServiceConfiguration) -> bytes:
    """Return the document; its scopes are those that any client is registered for."""
    oauth = f"{configuration.token_url}/oauth"
    scopes = sorted({scope for client in configuration.clients.values() for scope in client.scopes})
    return write_json(
        {
            "authorization_endpoint": f"{oauth}/authorize",
            "token_endpoint": f"{oauth}/token",
            "userinfo_endpoint": f"{oauth}/userinfo",
            "introspection_endpoint": f"{oauth}/info",
            "revocation_endpoint": f"{oauth}/cancel",
            "grant_types_supported": list(GRANTS),
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": AUTHENTICATION_METHODS,
            "token_endpoint_auth_signing_alg_values_supported": [SECRET_ALGORITHM, *ALGORITHMS.values()],
            "scopes_supported": scopes,
            "response_types_supported": ["code"],
            "capabilities": CAPABILITIES,
        }
    )
