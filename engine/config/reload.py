"""The service's configuration read again while it runs: what may change, and what is refused by name."""

from collections.abc import Iterator
from typing import Final

from engine.config.service import ServiceConfiguration
from engine.config.source import AuthoredFile, look
from engine.config.wording import Placed
from engine.errors import ConfigurationError

# Read anew at each request. All else is bound at the start: addresses, identifiers that were given, sockets, lifetimes.
LIVE: Final = frozenset(
    {
        "tenants",
        "clients",
        "users",
        "auth",
        "rate_limit",
        "max_body_bytes",
        "cursor_validity_s",
        "request_timeout_s",
        "stu3_path_aliases",
    }
)
RESTART: Final = "restart the service to put it in force"


def reread(source: AuthoredFile, running: ServiceConfiguration) -> ServiceConfiguration:
    """Return a configuration that may take the place of a running one.

    ConfigurationError: it is not valid, changes what is bound at the start, or lacks a tenant that is being served.
    """
    looked = look(source, ServiceConfiguration)
    new = looked.value
    problems = [*looked.problems, *(looked.located(_bound(new, running)) if new is not None else ())]
    if problems or new is None:
        raise ConfigurationError(tuple(problems))
    return new


def _bound(new: ServiceConfiguration, running: ServiceConfiguration) -> Iterator[Placed]:
    """Yield what a running service cannot change."""
    for name in ServiceConfiguration.model_fields:
        if name not in LIVE and getattr(new, name) != getattr(running, name):
            yield (name,), "changed while running", RESTART
    for name in running.tenants:
        if name not in new.tenants:
            yield ("tenants",), f"the tenant {name!r} is served and cannot go while running", RESTART
