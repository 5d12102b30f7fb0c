"""Whether a request was meant for us: it names a host of ours, and a form comes from a page of ours."""

from collections.abc import Iterable, Mapping
from typing import Final

from cryptography import x509

from engine.ops.web.refusal import RefusedRequestError

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
    """Say whether a Host header names one of these hosts; `*.example` matches one label in front."""
    host = host_of(header)
    parent = host.partition(".")[2]
    return bool(host) and any(host == name or (parent and f"*.{parent}" == name) for name in names)


FIELD: Final = "csrf"
_ELSEWHERE: Final = "the form was sent from elsewhere: open the page here and send it again"


def check_origin(headers: Mapping[str, str], scheme: str) -> None:
    """RefusedRequestError 403 where the browser says that the request began elsewhere.

    `Sec-Fetch-Site` decides where the browser sends it. Without it `Origin` must be ours; our pages ask for no
    referrer, for which browsers write an Origin of `null`.
    """
    site = headers.get("sec-fetch-site")
    origin = headers.get("origin")
    ours = f"{scheme}://{headers.get('host', '')}".lower()
    if site is not None and site != "same-origin":
        raise RefusedRequestError(403, _ELSEWHERE)
    if origin is not None and origin.lower() != ours and not (origin == "null" and site == "same-origin"):
        raise RefusedRequestError(403, _ELSEWHERE)
