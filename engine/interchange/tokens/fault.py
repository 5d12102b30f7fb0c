"""Errors of the token endpoints (RFC 6749 section 5.2) and of a bearer token at them (RFC 6750 section 3)."""

from typing import Final

from engine.errors import ServiceError

BEARER_STATUS: Final = {"invalid_token": 401, "insufficient_scope": 403}


class OAuthError(ServiceError):
    """An error of a token endpoint; `code` is one of the RFC's. Failed HTTP Basic or bearer tokens get a challenge.

    `unproven`: the client's credentials are wrong. `wait`: Retry-After in seconds (429).
    """

    def __init__(
        self,
        code: str,
        description: str,
        *,
        basic: bool = False,
        bearer: bool = False,
        unproven: bool = False,
        wait: int = 0,
    ) -> None:
        super().__init__(code)
        self.code = code
        self.description = description
        self.status = 401 if basic else BEARER_STATUS[code] if bearer else 400
        challenge = 'Basic realm="interchange"' if basic else f'Bearer error="{code}"' if bearer else ""
        self.headers = {"WWW-Authenticate": challenge} if challenge else {}
        self.unproven = unproven
        if wait:
            self.status, self.headers = 429, {"Retry-After": str(wait)}
