"""The files that pages need: a style sheet, scripts, an icon; read once, each with a tag of what it holds."""

import hashlib
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).with_name("assets")
KINDS: Final = {
    "style.css": "text/css; charset=utf-8",
    "pages.js": "text/javascript; charset=utf-8",
    "htmx.min.js": "text/javascript; charset=utf-8",
    "sse.min.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
FILES: Final = {name: (FOLDER / name).read_bytes() for name in KINDS}
TAGS: Final = {name: hashlib.sha256(content).hexdigest()[:16] for name, content in FILES.items()}


def address_of(name: str) -> str:
    """Return the address of a file as pages name it: another one after an upgrade, as browsers keep files a while."""
    return f"/assets/{name}?v={TAGS[name]}"
