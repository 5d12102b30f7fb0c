"""The templates: escaped everywhere, and a name that is not there is a mistake."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from engine import __version__
from engine.ops.views.reasons import reason_of
from engine.ops.web import wording
from engine.ops.web.files import address_of

_CODE: Final = re.compile(r"`([^`]+)`")
FOLDER: Final = Path(__file__).with_name("templates")


class Look:
    """Renders templates; `menu` and who is signed in are given with each page."""

    def __init__(self) -> None:
        self._environment = Environment(
            loader=FileSystemLoader(FOLDER),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
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
            "place": _place,
            "coded": _coded,
            "anchor": lambda code: reason_of(code).code,
            "meaning": lambda code: reason_of(code).meaning if code else "",
        }
        self._environment.globals |= {"version": __version__, "asset": address_of}

    def render(self, template: str, values: Mapping[str, Any]) -> str:
        """Return a template filled in."""
        return self._environment.get_template(template).render(values)


def _age(value: Any) -> str:
    """Return how long ago a moment was."""
    found = wording.moment_of(value)
    return wording.span((datetime.now(UTC) - found).total_seconds()) if found else wording.NOTHING


def _place(file: Any) -> str:
    """Return a mapping file by its folder and name: where the site keeps it is of no interest here."""
    return "/".join(Path(str(file)).parts[-2:])


def _coded(text: str) -> Markup:
    """Return a line of the table of reasons, in which names of commands and keys stand in backquotes."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))  # noqa: S704 - escaped just before
