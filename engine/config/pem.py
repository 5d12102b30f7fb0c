"""PEM files that a configuration names: there, readable, of the right kind, and fitting each other."""

import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

from engine.config.model import Placed
from engine.config.text import BESIDE

READABLE: Final = f"name a file that the user who runs the engine can read, {BESIDE}"
CERTIFICATES: Final = "name a PEM file of certificates (BEGIN CERTIFICATE)"
PRIVATE_KEY: Final = "name a PEM file of one private key (BEGIN PRIVATE KEY)"
DECRYPT: Final = "decrypt it: openssl pkey -in KEY -out FILE; chmod 600 FILE"


def authority(key: str, file: str) -> Iterator[Placed]:
    """Yield what keeps a file from being one of certificates, under the key that names it."""
    fault, expected = _certificates(file)[1:]
    if fault:
        yield (key,), fault, expected


def pair(certificate: str, private_key: str) -> Iterator[Placed]:
    """Yield what is wrong with the files of the keys `certificate` and `key`."""
    chain, fault, expected = _certificates(certificate)
    if fault:
        yield ("certificate",), fault, expected
    public, key_fault, expected = _public(private_key)
    if key_fault:
        yield ("key",), key_fault, expected
    if fault or key_fault:
        return
    if chain[0].public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo) != public:
        expected = f"name the key that {certificate} was made with, or the certificate that belongs to this key"
        yield ("key",), f"{private_key} does not belong to the certificate", expected
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, private_key)
    except (OSError, ValueError) as error:
        reason = str(getattr(error, "reason", "") or "").lower().replace("_", " ")
        found = f"TLS refuses {certificate}" + (f" ({reason})" if reason else "")
        yield ("certificate",), found, "use RSA of 2048 bits or more, or ECDSA, signed with SHA-256 or better"


def _certificates(file: str) -> tuple[list[x509.Certificate], str, str]:
    try:
        return x509.load_pem_x509_certificates(Path(file).read_bytes()), "", ""
    except OSError as error:
        return [], f"{file} cannot be read ({error.strerror})", READABLE
    except ValueError:
        return [], f"{file} holds no certificate that can be read", CERTIFICATES


def _public(file: str) -> tuple[bytes, str, str]:
    """Return the public half of a private key, or what is wrong with its file and what would do."""
    try:
        key = load_pem_private_key(Path(file).read_bytes(), None)
        return key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo), "", ""
    except OSError as error:
        return b"", f"{file} cannot be read ({error.strerror})", READABLE
    except TypeError:
        return b"", f"{file} is encrypted", DECRYPT
    except (ValueError, UnsupportedAlgorithm):
        return b"", f"{file} holds no private key that can be read", PRIVATE_KEY
