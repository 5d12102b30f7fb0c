"""Whether the service's line is encrypted, and by which files."""

from pathlib import Path

from engine.config.network import is_loopback
from engine.config.service import Environment, ServiceConfiguration, Tls
from engine.errors import StartError
from engine.http.tls import Pair


def check_open_line(configuration: ServiceConfiguration, host: str) -> None:
    """Refuse to let a production service speak plain HTTP beyond this machine; StartError says what would do."""
    safe = configuration.tls is not None or configuration.behind_proxy or is_loopback(host)
    if configuration.environment is Environment.PRODUCTION and not safe:
        raise StartError(
            f"production on {host} without TLS: set tls.certificate and tls.key,"
            " or behind_proxy: true where a proxy speaks TLS for the service"
        )


def pair_of(tls: Tls | None) -> Pair | None:
    """Return the files of TLS under the names of their keys in the configuration."""
    return None if tls is None else Pair(Path(tls.certificate), Path(tls.key), ("tls.certificate", "tls.key"))
