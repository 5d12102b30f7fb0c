"""A self-signed certificate for trying a TLS listener out: who trusts the file itself can connect, nobody else."""

import ipaddress
import os
import socket
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from engine.errors import UsageError

DAYS: Final = 30
ADDRESSES: Final = ("127.0.0.1", "::1")


def write_test_certificate(certificate: Path, key: Path, now: datetime) -> None:
    """Write a certificate of this machine and its key (mode 0600), valid for 30 days; UsageError if one is there."""
    private = ec.generate_private_key(ec.SECP256R1())
    made = _signed(private, now)
    content = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    for path, text in ((key, content), (certificate, made.public_bytes(Encoding.PEM))):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
                file.write(text)
        except OSError as error:
            raise UsageError(
                f"{path} cannot be created ({error.strerror}): remove it, or use it with --tls files"
            ) from error


def _signed(private: ec.EllipticCurvePrivateKey, now: datetime) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "adt-engine, for trying only")])
    public = private.public_key()
    names: list[x509.GeneralName] = [x509.DNSName(one) for one in dict.fromkeys(("localhost", socket.gethostname()))]
    names += [x509.IPAddress(ipaddress.ip_address(one)) for one in ADDRESSES]
    identifier = x509.SubjectKeyIdentifier.from_public_key(public)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=DAYS))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(identifier, critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False)
        .sign(private, SHA256())
    )
