"""Renders the templates, escaped everywhere, where a missing name is an error; and the files that pages need."""

import asyncio
import hashlib
import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from engine import __version__
from engine.interpreter import SHORT_TURNS
from engine.ops.views import wording
from engine.ops.views.incident import Severity
from engine.ops.views.phrases import note_phrase, phrase
from engine.ops.views.reasons import reason_of

TEMPLATES: Final = Path(__file__).with_name("templates")
ASSETS: Final = Path(__file__).with_name("assets")
KINDS: Final = {
    "style.css": "text/css; charset=utf-8",
    "pages.js": "text/javascript; charset=utf-8",
    "htmx.min.js": "text/javascript; charset=utf-8",
    "sse.min.js": "text/javascript; charset=utf-8",
    "playground.js": "text/javascript; charset=utf-8",
    "codemirror.min.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
FILES: Final = {name: (ASSETS / name).read_bytes() for name in KINDS}
# Where a page does what a command does; the first that fits.
COMMANDS: Final[Mapping[str, str]] = {
    "messages resolve": "/messages/{entry}/choose",
    "messages edit": "/messages/{entry}/edit",
    "messages explain": "/messages/{entry}/explain",
    "messages list --state held": "/lanes",
    "messages list --state rejected": "/messages?state=rejected",
    "messages list": "/messages",
    "messages replays": "/runs",
    "lanes ": "/lanes",
    "duplicates ": "/duplicates",
    "destinations ": "/channels",
    "channels start": "/channels",
    "channels allow-merge": "/channels",
    "alerts ": "/alerts",
    "mappings coverage": "/codes",
    "audit ": "/audit",
    "users ": "/users",
}
# How an alert or an incident of a severity is drawn.
DRAWN: Final = {Severity.URGENT: "bad", Severity.TO_DECIDE: "warn", Severity.CAN_WAIT: "info"}
_UNPLACED: Final = re.compile(r"[^a-z0-9 _-]")
_CODE: Final = re.compile(r"`([^`]+)`")
TAGS: Final = {name: hashlib.sha256(content).hexdigest()[:16] for name, content in FILES.items()}


def address_of(name: str) -> str:
    """Return the address of a file as pages name it: another one after an upgrade, as browsers keep files a while."""
    return f"/assets/{name}?v={TAGS[name]}"


class Renderer:
    """Renders templates; `menu` and the signed-in user are given with each page."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "pages")
        self._environment = Environment(
            loader=FileSystemLoader(TEMPLATES),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        self._environment.filters |= {
            "visible": wording.visible,
            "visible_lines": wording.visible_lines,
            "moment": wording.moment,
            "span": wording.span,
            "number": wording.number,
            "milliseconds": wording.milliseconds,
            "pretty": wording.pretty,
            "age": _age,
            "clock": wording.clock,
            "soon": _soon,
            "severity": lambda one: DRAWN[one.severity],
            "place": _place,
            "coded": _coded,
            "heading_id": heading_id,
            "phrase": phrase,
            "note_phrase": note_phrase,
            "anchor": lambda code: reason_of(code).code,
            "meaning": lambda code: reason_of(code).meaning if code else "",
        }
        self._environment.globals |= {"version": __version__, "asset": address_of}

    async def render(self, template: str, values: Mapping[str, object]) -> str:
        """Return a template filled in, by a thread: a long page must not keep senders from their answers."""
        with SHORT_TURNS.taken():
            return await asyncio.get_running_loop().run_in_executor(self._thread, self._filled_in, template, values)

    def _filled_in(self, template: str, values: Mapping[str, object]) -> str:
        return self._environment.get_template(template).render(values)


def heading_id(heading: object) -> str:
    """Return the place of a heading in its page, as links of Markdown name it."""
    return _UNPLACED.sub("", str(heading).lower()).replace(" ", "-")


def _age(value: object) -> str:
    """Return how long ago a moment was."""
    found = wording.moment_of(value)
    return wording.span((datetime.now(UTC) - found).total_seconds()) if found else wording.NOTHING


def _soon(value: object) -> str:
    """Return how long it is until a moment: `in 8 s`, `now` for one that has passed or is none."""
    found = wording.moment_of(value)
    left = (found - datetime.now(UTC)).total_seconds() if found else 0.0
    return f"in {wording.span(left)}" if left >= 1 else "now"


def _place(file: object) -> str:
    """Return a mapping file by its folder and name: where the site keeps it is of no interest here."""
    return "/".join(Path(str(file)).parts[-2:])


def _coded(text: str, entry: int = 0) -> Markup:
    """Return a line of the table of reasons, in which names of commands and keys stand in backquotes.

    A command that a page does, too, is a button to that page: with `entry` also what is done with an entry.
    """

    def code(found: re.Match[str]) -> str:
        places = (page for command, page in COMMANDS.items() if found[1].startswith(command))
        place = next((page for page in places if entry or "{entry}" not in page), "")
        shown = f"<code>{found[1]}</code>"
        return f'<a class="does" href="{place.format(entry=entry)}">{shown}</a>' if place else shown

    return Markup(_CODE.sub(code, str(escape(text))))  # noqa: S704 - escaped just before
