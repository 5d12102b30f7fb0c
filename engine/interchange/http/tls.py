"""Whether the service's line is encrypted, and how."""

import ssl
from ipaddress import ip_address

from engine.config.service import Environment, ServiceConfiguration, Tls
from engine.errors import StartError


def check_open_line(configuration: ServiceConfiguration, host: str) -> None:
    """Refuse to let a production service speak plain HTTP beyond this machine; StartError says what would do."""
    safe = configuration.tls is not None or configuration.behind_proxy or _is_loopback(host)
    if configuration.environment is Environment.PRODUCTION and not safe:
        raise StartError(
            f"production on {host} without TLS: set tls.certificate and tls.key,"
            " or behind_proxy: true where a proxy speaks TLS for the service"
        )


def server_context(tls: Tls) -> ssl.SSLContext:
    """Return the context of a TLS server: 1.3, or 1.2 with forward secrecy. StartError: the files cannot be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("ECDHE+AESGCM:ECDHE+CHACHA20")
    try:
        context.load_cert_chain(tls.certificate, tls.key)
    except OSError as error:
        raise StartError(f"tls: {tls.certificate} and {tls.key} cannot be used ({error.strerror})") from error
    return context


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
