"""Whether the service's line is encrypted, and by which files."""

from pathlib import Path

from engine import fault
from engine.config.network import is_loopback
from engine.config.service import Environment, ServiceConfiguration, Tls
from engine.errors import StartError
from engine.http.tls import KeyPair


def check_open_line(configuration: ServiceConfiguration, host: str) -> None:
    """Refuse to let a production service speak plain HTTP, or a service with a fault armed speak, beyond this machine.

    StartError says what would do.
    """
    if fault.armed() and not is_loopback(host):
        raise StartError("with ENGINE_FAULT set the service listens on loopback only: unset it, or name another --host")
    safe = configuration.tls is not None or configuration.behind_proxy or is_loopback(host)
    if configuration.environment is Environment.PRODUCTION and not safe:
        raise StartError(
            f"production on {host} without TLS: set tls.certificate and tls.key,"
            " or behind_proxy: true where a proxy speaks TLS for the service"
        )


def pair_of(tls: Tls | None) -> KeyPair | None:
    """Return the files of TLS under the names of their keys in the configuration."""
    return None if tls is None else KeyPair(Path(tls.certificate), Path(tls.key), ("tls.certificate", "tls.key"))
