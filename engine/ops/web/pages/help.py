"""The help pages as HTML for every signed-in actor, and the reasons: what each code means and what to do next."""

import re
from collections.abc import Iterator
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup
from starlette.responses import Response

from engine.errors import UsageError
from engine.ops.access.actor import Permission
from engine.ops.operations.reasons import ListReasons
from engine.ops.views.handbook import INDEX, linked, page_of, read
from engine.ops.views.reasons import REASONS
from engine.ops.web.call import WebCall
from engine.ops.web.refusal import RefusedRequestError
from engine.ops.web.route import Free, Route

_MARKDOWN: Final = MarkdownIt("commonmark", {"html": False}).enable("table")
_UNPLACED: Final = re.compile(r"[^a-z0-9 _-]")


def html_of(page: str, text: str) -> Markup:
    """Return a page's Markdown as HTML; `page` is its name, '' for the index. What it holds is escaped."""
    tokens = _MARKDOWN.parse(text)
    for before, token in zip([None, *tokens], tokens, strict=False):
        token.attrs.pop("style", None)  # the policy of the pages allows no style but the sheet's
        if token.type == "inline":
            _place(before, token)
            token.children = list(_linked(page, token.children or []))
    made = _MARKDOWN.renderer.render(tokens, _MARKDOWN.options, {})
    scrolled = made.replace("<table>", '<div class="scroll"><table>').replace("</table>", "</table></div>")
    return Markup(scrolled)  # noqa: S704 - the renderer escapes all text, and HTML in it is text


def _place(before: Token | None, token: Token) -> None:
    """Name the place of a heading as links do, and that of a reason's cell by its code."""
    if before is not None and before.type == "heading_open":
        before.attrSet("id", _UNPLACED.sub("", token.content.lower()).replace(" ", "-"))
    elif before is not None and before.type == "td_open" and token.content in REASONS:
        before.attrSet("id", token.content)


def _linked(page: str, parts: list[Token]) -> Iterator[Token]:
    """Yield the parts of a line, links to other pages as addresses of ours; one that leads to no page is plain text."""
    dropped = False
    for part in parts:
        if part.type == "link_open":
            target = linked(page, str(part.attrGet("href")))
            dropped = target is None
            part.attrSet("href", f"/help/{target}" if target else "/help")
        if not (dropped and part.type in {"link_open", "link_close"}):
            yield part


async def _list(call: WebCall) -> Response:
    return call.page("help.html", name="", title="Help", text=html_of("", read(INDEX)))


async def _show(call: WebCall) -> Response:
    try:
        page = page_of(str(call.request.path_params.get("name", "")))
    except UsageError as error:
        raise RefusedRequestError(404, str(error)) from error
    return call.page("help.html", name=page.name, title=page.title, text=html_of(page.name, page.text()))


async def _reasons(call: WebCall) -> Response:
    return call.page("reasons.html", reasons=await call.perform(ListReasons))


ROUTES: Final = (
    Route("GET", "/reasons", Permission.METADATA, _reasons, label="Reasons"),
    Route("GET", "/help", Free.SIGNED_IN, _list, label="Help"),
    Route("GET", "/help/{name}", Free.SIGNED_IN, _show),
)
