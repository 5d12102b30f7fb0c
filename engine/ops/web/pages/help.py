"""The help pages as HTML for every signed-in actor, and the reasons: what each code means and what to do next."""

import asyncio
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup
from starlette.responses import HTMLResponse, Response

from engine.errors import UsageError
from engine.ops.access.actor import Permission
from engine.ops.operations.alerts import ListReasons
from engine.ops.views.handbook import INDEX, PAGES, linked, page_of, read
from engine.ops.views.handbook_search import find_reasons, search
from engine.ops.views.reasons import REASONS
from engine.ops.web.call import WebCall
from engine.ops.web.refusal import RefusedRequestError
from engine.ops.web.renderer import heading_id
from engine.ops.web.route import Free, Route

_MARKDOWN: Final = MarkdownIt("commonmark", {"html": False}).enable("table")
LONGEST_WORDS: Final = 200
MOST_HITS: Final = 50


@lru_cache(maxsize=64)
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
        before.attrSet("id", heading_id(token.content))
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
    words = _words(call)
    hits = search(words.split(), partial=True) if words else []
    titles = {page.name: page.title for page in PAGES.values()}
    text = "" if words else await asyncio.to_thread(html_of, "", read(INDEX))
    values = {"name": "", "title": "Help", "text": text, "words": words, "hits": hits, "titles": titles}
    return await _shown(call, "help.html", **values, most=MOST_HITS)


async def _show(call: WebCall) -> Response:
    try:
        page = page_of(str(call.request.path_params.get("name", "")))
    except UsageError as error:
        raise RefusedRequestError(404, str(error)) from error
    text = await asyncio.to_thread(html_of, page.name, page.text())
    return await call.page("help.html", name=page.name, title=page.title, text=text, words="")


async def _reasons(call: WebCall) -> Response:
    words, everything = _words(call), await call.perform(ListReasons)
    return await _shown(call, "reasons.html", found=find_reasons(words), words=words, total=len(everything))


async def _shown(call: WebCall, page: str, **values: Any) -> Response:
    """Answer with a page that has a filter, or with what it found where that is all that is asked for."""
    return (
        HTMLResponse(await call.part(f"parts/found_{page}", **values))
        if call.is_part
        else await call.page(page, **values)
    )


def _words(call: WebCall) -> str:
    """Return what a filter asks for, as long as its field lets anybody write."""
    return " ".join(call.asked("words")[:LONGEST_WORDS].split())


ROUTES: Final = (
    Route("GET", "/reasons", Permission.METADATA, _reasons, label="Reasons"),
    Route("GET", "/help", Free.SIGNED_IN, _list, label="Help"),
    Route("GET", "/help/{name}", Free.SIGNED_IN, _show),
)
