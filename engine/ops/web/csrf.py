"""Whether a form was sent by a page of ours, as far as the browser says where it began."""

from collections.abc import Mapping
from typing import Final

from engine.ops.web.refusal import RefusedRequestError

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
