"""Which names of this machine a request may ask for: a page elsewhere that points its own name here gets nothing."""

from collections.abc import Iterable

from cryptography import x509

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})


def names_of(certificate: bytes) -> frozenset[str]:
    """Return the host names and addresses that a PEM certificate is for, lower case; none where it has no such list."""
    leaf = x509.load_pem_x509_certificates(certificate)[0]
    try:
        names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return frozenset()
    addresses = (str(address) for address in names.get_values_for_type(x509.IPAddress))
    return frozenset({*(name.lower() for name in names.get_values_for_type(x509.DNSName)), *addresses})


def host_of(header: str) -> str:
    """Return the host of a Host header without its port and brackets, lower case."""
    text = header.strip().lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.rpartition(":")[0] if text.count(":") == 1 else text


def is_known(header: str, names: Iterable[str]) -> bool:
    """Say whether a Host header names one of these hosts; `*.example` stands for one label in front."""
    host = host_of(header)
    parent = host.partition(".")[2]
    return bool(host) and any(host == name or (parent and f"*.{parent}" == name) for name in names)
