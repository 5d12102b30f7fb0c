"""Documents of a patient: their kind, author, and the address of their content."""

from typing import Final

from engine.fhir.json import Json
from engine.interchange.web.chart.chart_reader import ChartReader
from engine.interchange.web.chart.coded import CONCEPT, called, status
from engine.interchange.web.chart.field import (
    TEXT,
    ChartField,
    ObjectShape,
    Resource,
    listed,
    many,
    moment,
    one,
    several,
    text,
)

BINARY: Final = "Binary/"
SIZE: Final = {"type": "integer"}


def _address(attachment: Resource, reader: ChartReader) -> Json:
    """Return the address of the content, on this service or elsewhere; '' for inline content."""
    url = attachment.get("url", "")
    return f"{reader.base_url}/fhir/R4/{url}" if url.startswith(BINARY) else url


ATTACHMENT: Final = ObjectShape(
    "Attachment",
    (
        text("contentType"),
        text("title"),
        ChartField("size", SIZE, lambda attachment, _: attachment.get("size")),
        moment("created", "creation"),
        ChartField("url", TEXT, _address),
    ),
)


def _title(document: Resource, _reader: ChartReader) -> Json:
    titles = (part["attachment"].get("title") for part in listed(document.get("content")))
    return document.get("description") or next(filter(None, titles), None)


def _authors(document: Resource, reader: ChartReader) -> Json:
    return [name for part in listed(document.get("author")) if (name := called(part, reader, document))]


def _attachments(document: Resource, reader: ChartReader) -> Json:
    return [ATTACHMENT.of(part["attachment"], reader) for part in listed(document.get("content"))]


DOCUMENT: Final = ObjectShape(
    "Document",
    (
        ChartField("title", TEXT, _title),
        one("type", CONCEPT, "type"),
        several("categories", CONCEPT, "category"),
        status(),
        moment("date", "date"),
        ChartField("authors", many(TEXT), _authors),
        ChartField("custodian", TEXT, lambda document, reader: called(document.get("custodian"), reader, document)),
        ChartField("attachments", many(ATTACHMENT.link), _attachments),
    ),
)
SHAPES: Final = (ATTACHMENT,)
