"""Renders templates with autoescape, missing values empty; the style sheet; headers of pages."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader
from starlette.responses import Response

from engine.interchange.web.viewer import filters, naming, trend

ASSETS: Final = Path(__file__).with_name("assets")
# Static files of the pages, by name: content and media type.
FILES: Final = {
    name: ((ASSETS / name).read_bytes(), kind)
    for name, kind in (("viewer.css", "text/css"), ("icon.svg", "image/svg+xml"))
}
POLICY: Final = (
    "default-src 'none'; style-src 'self'; img-src 'self'; frame-src 'self'; form-action 'self';"
    " base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Final = {
    "content-security-policy": POLICY,
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
}
HTML: Final = "text/html"

_ENVIRONMENT: Final = Environment(
    loader=FileSystemLoader(Path(__file__).with_name("templates")),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
)
_ENVIRONMENT.filters |= {
    "moment": naming.moment,
    "spoken": naming.spoken,
    "short": naming.short_name,
    "shorts": naming.short_names,
    "coded": naming.coded,
    "all_coded": naming.all_coded,
    "listed_name": naming.listed_name,
    "readable": naming.readable,
    "without_unit": trend.without_unit,
    "written_unit": trend.written_unit,
    "clinical_rank": filters.clinical_rank,
    "medication_rank": filters.medication_rank,
    "immunization_rank": filters.immunization_rank,
    "visit_rank": filters.visit_rank,
}


def page(template: str, values: Mapping[str, object], status: int = 200) -> Response:
    """Return a rendered template as a page."""
    return Response(_ENVIRONMENT.get_template(template).render(values), status, HEADERS, HTML)


def redirect(address: str) -> Response:
    """Return a redirect to another page, by GET."""
    return Response(b"", 303, {**HEADERS, "location": address})
