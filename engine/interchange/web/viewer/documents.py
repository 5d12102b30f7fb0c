"""The page of a document: its text, its narrative, or its content in the browser."""

import base64
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Final
from urllib.parse import urlencode

from starlette.responses import Response

from engine.fhir.json import JsonObject
from engine.interchange.web.viewer.rendering import HEADERS
from engine.interchange.web.viewer.session import Asker, RefusedPageError

BINARY: Final = "Binary/"
TEXTS: Final = frozenset({"text/plain", "application/json"})
PICTURES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
FRAMED: Final = frozenset({"application/pdf"})
# Content is untrusted: it runs no script, loads nothing, and is framed by these pages only.
CONTENT: Final = {
    **HEADERS,
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'self'",
    "x-frame-options": "SAMEORIGIN",
}
NOT_FOUND: Final = 404


@dataclass(frozen=True, slots=True)
class AttachmentView:
    """One attachment on a page; `kind` is text, picture, frame, file or elsewhere."""

    number: int
    title: str
    media_type: str
    kind: str
    text: str = ""
    url: str = ""


async def find_document(asker: Asker, patient_id: str, document_id: str) -> JsonObject:
    """Return a DocumentReference of this patient; RefusedPageError (404) for another patient's."""
    documents = await asker.found("DocumentReference", urlencode({"patient": patient_id, "_id": document_id}))
    if not documents:
        raise RefusedPageError(NOT_FOUND)
    return documents[0]


async def parts_of(asker: Asker, document: JsonObject) -> list[AttachmentView]:
    """Return the attachments of a document, with the text of text attachments."""
    return [await _part(asker, number, one["attachment"]) for number, one in enumerate(document.get("content", ()))]


async def content_of(asker: Asker, document: JsonObject, number: int) -> Response:
    """Return the content of an attachment; active content is a download."""
    attached = document.get("content", ())
    if number >= len(attached):
        raise RefusedPageError(NOT_FOUND)
    attachment = attached[number]["attachment"]
    media_type = _media_type(attachment)
    body = await _bytes(asker, attachment)
    if media_type in PICTURES | FRAMED:
        return Response(body, 200, CONTENT, media_type)
    kept = {**CONTENT, "content-disposition": 'attachment; filename="document"'}
    return Response(body, 200, kept, "application/octet-stream")


def narrative(document: JsonObject) -> list[tuple[str, str]]:
    """Return the lines of a document's narrative, each with `h2` or `p`; empty without a narrative."""
    reader = _Narrative()
    reader.feed(document.get("text", {}).get("div", "") if document.get("text", {}).get("status") != "empty" else "")
    reader.close()
    return reader.lines


async def _part(asker: Asker, number: int, attachment: JsonObject) -> AttachmentView:
    media_type, url = _media_type(attachment), attachment.get("url", "")
    known = number, attachment.get("title", ""), media_type
    if "data" not in attachment and not url.startswith(BINARY):
        return AttachmentView(*known, "elsewhere", url=url)
    if media_type in TEXTS:
        return AttachmentView(*known, "text", (await _bytes(asker, attachment)).decode("utf-8", "replace"))
    return AttachmentView(*known, "picture" if media_type in PICTURES else "frame" if media_type in FRAMED else "file")


async def _bytes(asker: Asker, attachment: JsonObject) -> bytes:
    if "data" in attachment:
        return base64.b64decode(attachment["data"])
    url = attachment.get("url", "")
    if not url.startswith(BINARY):
        raise RefusedPageError(NOT_FOUND)
    return (await asker.get(url, accept="*/*")).body


def _media_type(attachment: JsonObject) -> str:
    return str(attachment.get("contentType", "")).partition(";")[0].strip().lower()


class _Narrative(HTMLParser):
    """Extracts the text of a narrative: headings, blocks, table cells."""

    BLOCKS: Final = frozenset({"p", "div", "li", "tr", "br", "table", "ul", "ol", "caption"})
    HEADINGS: Final = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[tuple[str, str]] = []
        self._kind = "p"
        self._text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002 - as the parser calls it
        """Begin a line at a block, a new cell behind a gap."""
        if tag in self.BLOCKS | self.HEADINGS:
            self._end("h2" if tag in self.HEADINGS else "p")
        elif tag in {"td", "th"}:
            self._text.append(" ")

    def handle_endtag(self, tag: str) -> None:
        """End the line of a block."""
        if tag in self.BLOCKS | self.HEADINGS:
            self._end("p")

    def handle_data(self, data: str) -> None:
        """Add to the line."""
        self._text.append(data)

    def close(self) -> None:
        """End the last line."""
        super().close()
        self._end("p")

    def _end(self, following: str) -> None:
        text = " ".join("".join(self._text).split())
        if text:
            self.lines.append((self._kind, text))
        self._kind, self._text = following, []
