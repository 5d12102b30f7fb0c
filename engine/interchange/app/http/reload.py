"""A running service takes up its configuration anew: clients, users, roles, tenants' settings, limits."""

from collections.abc import Callable

from engine.config.service import ServiceConfiguration
from engine.errors import ConfigurationError, StartError
from engine.interchange.core.service import Service
from engine.interchange.tokens.oauth.scope import right
from engine.telemetry import logger

Change = Callable[[ServiceConfiguration], ServiceConfiguration]


def warn(configuration: ServiceConfiguration) -> None:
    """Log what a configuration asks for in vain: keys that nothing obeys, secrets that cannot be read, no scopes."""
    if configuration.unheeded:
        logger().warning("not in force", waits_for=list(configuration.unheeded))
    for name, client in configuration.clients.items():
        if client.trouble:
            logger().warning("client cannot prove itself", client=name, error=client.trouble)
        unknown = [scope for scope in client.scopes if right(scope) is None]
        if unknown:
            logger().warning("no such scope", client=name, codes=unknown)


class ConfigurationReloader:
    """Reads the configuration again when called, and puts it in force whole or not at all.

    `written` is the configuration as it stood in the file; `reread` returns its successor or raises
    ConfigurationError; `bound` puts the real port into addresses that leave it open; `certificate` reads the files
    of TLS anew, or raises StartError.
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
        """Put the new configuration in force, or log each reason why the old one stays."""
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
