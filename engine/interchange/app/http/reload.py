"""Reload of the configuration in a running service: clients, users, roles, tenants' settings, limits."""

from collections.abc import Callable

from engine.config.service import ServiceConfiguration
from engine.errors import ConfigurationError, StartError
from engine.interchange.core.service import Service
from engine.interchange.tokens.oauth.scope import right
from engine.telemetry import logger

Change = Callable[[ServiceConfiguration], ServiceConfiguration]


def warn(configuration: ServiceConfiguration) -> None:
    """Log warnings on a configuration: keys without effect, secrets that cannot be read, unknown scopes."""
    if configuration.unheeded:
        logger().warning("not in force", waits_for=list(configuration.unheeded))
    for name, client in configuration.clients.items():
        if client.trouble:
            logger().warning("client cannot prove itself", client=name, error=client.trouble)
        unknown = [scope for scope in client.scopes if right(scope) is None]
        if unknown:
            logger().warning("no such scope", client=name, codes=unknown)


class ConfigurationReloader:
    """Reloads the configuration when called, as a whole or not at all.

    `written` is the configuration from the file; `reread` returns its successor or raises ConfigurationError; `bound`
    puts the bound port into addresses with port 0; `certificate` reloads the TLS files, or raises StartError.
    """

    def __init__(
        self,
        service: Service,
        written: ServiceConfiguration,
        reread: Change,
        bound: Change,
        certificate: Callable[[], None] | None = None,
    ) -> None:
        self._service = service
        self._written = written
        self._reread = reread
        self._bound = bound
        self._certificate = certificate

    def __call__(self) -> None:
        """Apply the new configuration, or log each reason to keep the old one."""
        try:
            new = self._reread(self._written)
            if self._certificate is not None:
                self._certificate()
        except StartError as error:
            logger().error("reload refused", error=str(error))
            return
        except ConfigurationError as error:
            for problem in error.problems:
                logger().error(
                    "reload refused", file=f"{problem.file}:{problem.line}:{problem.column}", error=str(problem)
                )
            return
        self._service.store.number(new.tenants)
        self._service.configuration = self._bound(new)
        changed = [name for name in type(new).model_fields if getattr(new, name) != getattr(self._written, name)]
        self._written = new
        logger().info("reloaded", count=len(changed), codes=changed)
        warn(new)
