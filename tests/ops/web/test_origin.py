"""Which hosts a request may name, and where a form may have begun, as the browser tells it."""

import pytest
import trustme

from engine.errors import AdtEngineError
from engine.ops.web.origin import check_origin, host_of, is_known, names_of

HOST = "127.0.0.1:8081"
OURS = f"http://{HOST}"
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


@pytest.mark.parametrize(
    ("header", "host"),
    [
        ("127.0.0.1:8081", "127.0.0.1"),
        ("LOCALHOST", "localhost"),
        ("[::1]:8081", "::1"),
        ("[::1]", "::1"),
        ("engine.example:443", "engine.example"),
        ("", ""),
    ],
)
def test_the_host_is_read_without_its_port(header: str, host: str) -> None:
    """Case, port and brackets do not matter."""
    assert host_of(header) == host


@pytest.mark.parametrize(
    "header", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8081", "", "::1:80"]
)
def test_a_name_that_points_here_is_not_enough(header: str) -> None:
    """A page elsewhere whose name leads to this machine (DNS rebinding) is not answered."""
    assert not is_known(header, LOOPBACK)


def test_names_of_a_certificate_may_be_asked_for() -> None:
    """DNS names, one label under a wildcard, and addresses; the parent of a wildcard is none."""
    issued = trustme.CA().issue_cert("Engine.example", "*.ward.example", "10.1.2.3")
    names = names_of(issued.cert_chain_pems[0].bytes())
    assert is_known("engine.example:8443", names)
    assert is_known("a.ward.example", names)
    assert is_known("10.1.2.3:8443", names)
    assert not is_known("ward.example", names)
    assert not is_known("a.b.ward.example", names)


@pytest.mark.parametrize(
    "told",
    [
        {},
        {"sec-fetch-site": "same-origin", "origin": OURS},
        {"sec-fetch-site": "same-origin", "origin": "null"},
        {"origin": OURS},
    ],
)
def test_our_own_forms_are_taken(told: dict[str, str]) -> None:
    """Also with the Origin of null that a page without referrer sends; what is no browser needs the token alone."""
    check_origin({"host": HOST, **told}, "http")


@pytest.mark.parametrize(
    "told",
    [
        {"sec-fetch-site": "cross-site", "origin": "https://evil.example"},
        {"sec-fetch-site": "cross-site", "origin": OURS},
        {"sec-fetch-site": "same-site", "origin": "http://127.0.0.1:9000"},
        {"sec-fetch-site": "none"},
        {"sec-fetch-site": "same-origin", "origin": "https://evil.example"},
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": f"https://{HOST}"},
        {"origin": f"{OURS}.evil.example"},
        {"origin": ""},
    ],
)
def test_forms_from_elsewhere_are_refused(told: dict[str, str]) -> None:
    """Another site, another port, another scheme, or no origin that is told by itself."""
    with pytest.raises(AdtEngineError, match="elsewhere"):
        check_origin({"host": HOST, **told}, "http")
