"""Where a form began, as the browser tells it."""

import pytest

from engine.errors import AdtEngineError
from engine.ops.web.csrf import check_origin

HOST = "127.0.0.1:8081"
OURS = f"http://{HOST}"


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
