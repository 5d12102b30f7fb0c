"""Errors of the token endpoints (RFC 6749 section 5.2)."""

from engine.errors import ServiceError


class OAuthError(ServiceError):
    """A token endpoint refuses; `code` is one of the RFC's, and 401 answers a failed HTTP Basic."""

    def __init__(self, code: str, description: str, *, basic: bool = False) -> None:
        super().__init__(code)
        self.code = code
        self.description = description
        self.status = 401 if basic else 400
        self.headers = {"WWW-Authenticate": 'Basic realm="interchange"'} if basic else {}
