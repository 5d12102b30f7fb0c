"""Whether the service's line is encrypted, and how."""

import ssl
from pathlib import Path

from engine.config.network import is_loopback
from engine.config.service import Environment, ServiceConfiguration, Tls
from engine.errors import StartError


def check_open_line(configuration: ServiceConfiguration, host: str) -> None:
    """Refuse to let a production service speak plain HTTP beyond this machine; StartError says what would do."""
    safe = configuration.tls is not None or configuration.behind_proxy or is_loopback(host)
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
    for name, file in (("certificate", tls.certificate), ("key", tls.key)):
        try:
            Path(file).open("rb").close()
        except OSError as error:
            raise StartError(f"tls.{name}: {file} cannot be read ({error.strerror})") from error
    try:
        context.load_cert_chain(tls.certificate, tls.key, _passphrase)
    except ssl.SSLError as error:
        matched = error.reason != "KEY_VALUES_MISMATCH"
        fault = "cannot be read as PEM, certificate chain and private key" if matched else "do not belong together"
        raise StartError(f"tls: {tls.certificate} and {tls.key} {fault} ({error.reason or 'no PEM'})") from error
    return context


def renew(context: ssl.SSLContext, tls: Tls) -> None:
    """Let new connections use the files as they are now. StartError: they cannot be used, and nothing has changed."""
    # Tried apart from the one in use, which a key of another certificate would leave with half of each.
    server_context(tls)
    context.load_cert_chain(tls.certificate, tls.key, _passphrase)


def _passphrase() -> str:
    # Without this OpenSSL asks at the terminal, and a service waits there for ever.
    raise StartError(
        "tls.key: the private key is encrypted; decrypt it (openssl pkey -in KEY -out FILE; chmod 600 FILE)"
    )
