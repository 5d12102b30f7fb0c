"""A stranger's bytes as an XML tree: without a DTD, entities or network, within bounds, or an UnreadableDocumentError.

What a document may cost is bounded before it is parsed: its bytes, and its signs that begin tags and attributes. Of a
text that passes, libxml2 refuses more than 256 levels, and one text or attribute of more than 10 million characters.
"""

import codecs
import re
from typing import Final

from lxml import etree

from engine.interchange.clinical.ccda.reading.element import Element
from engine.interchange.clinical.patient360.facts import MOST_BYTES, UnreadableDocumentError, UnreadableReason

# Each element of a tree takes about 200 bytes of memory, each attribute about 100.
MOST_TAGS: Final = 1_000_000
MOST_ATTRIBUTES: Final = 1_000_000
MARKS: Final = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
DECLARED: Final = re.compile(rb"""\A<\?xml[^>]{1,100}?encoding\s*=\s*["']([A-Za-z0-9._-]{1,40})["']""")
# Encodings that the XML of health care comes in; of each the codec here.
ENCODINGS: Final = {
    "utf-8": "utf-8",
    "utf8": "utf-8",
    "us-ascii": "ascii",
    "ascii": "ascii",
    "iso-8859-1": "iso-8859-1",
    "latin1": "iso-8859-1",
    "windows-1252": "cp1252",
    "cp1252": "cp1252",
}
DOCTYPE: Final = "<!DOCTYPE"
SPACE: Final = re.compile(r"\s*")
# What may precede a DOCTYPE: its begin and its end.
BEFORE: Final = (("<!--", "-->"), ("<?", "?>"))
# How libxml2 reports that one of its own limits is exceeded.
LIMITS: Final = (
    ("Excessive depth", UnreadableReason.TOO_DEEP),
    ("Resource limit exceeded", UnreadableReason.TOO_LARGE),
)


def read_root(body: bytes, most_bytes: int = MOST_BYTES) -> Element:
    """Return the root of an XML document, without comments and processing instructions.

    UnreadableDocumentError: `too-large` (also a single text of more than 10 million characters), `bad-encoding`,
    `entity-declared` (any DOCTYPE), `too-deep`, `not-xml`.
    """
    if len(body) > most_bytes:
        raise UnreadableDocumentError(UnreadableReason.TOO_LARGE)
    text = _decoded(body)
    if text.count("<") > MOST_TAGS or text.count("=") > MOST_ATTRIBUTES:
        raise UnreadableDocumentError(UnreadableReason.TOO_LARGE)
    if _has_doctype(text):
        raise UnreadableDocumentError(UnreadableReason.ENTITY_DECLARED)
    parser = etree.XMLParser(
        encoding="utf-8",
        resolve_entities=False,
        load_dtd=False,
        no_network=True,
        huge_tree=False,
        remove_comments=True,
        remove_pis=True,
    )
    try:
        root = etree.fromstring(text.encode(), parser)
    except etree.XMLSyntaxError as error:
        raise UnreadableDocumentError(_reason(error)) from None
    except ValueError:
        raise UnreadableDocumentError(UnreadableReason.NOT_XML) from None
    if root.getroottree().docinfo.internalDTD is not None:
        raise UnreadableDocumentError(UnreadableReason.ENTITY_DECLARED)
    return root


def _decoded(body: bytes) -> str:
    """Return the text of a document by its byte order mark, else by its declaration, else as UTF-8."""
    for mark, name in MARKS:
        if body.startswith(mark):
            body, encoding = body[len(mark) :], name
            break
    else:
        declared = DECLARED.match(body)
        found = ENCODINGS.get(declared[1].decode("ascii").lower() if declared else "utf-8")
        if found is None:
            raise UnreadableDocumentError(UnreadableReason.BAD_ENCODING)
        encoding = found
    try:
        return body.decode(encoding)
    except UnicodeDecodeError:
        raise UnreadableDocumentError(UnreadableReason.BAD_ENCODING) from None


def _has_doctype(text: str) -> bool:
    """Return whether a DOCTYPE precedes the first element; elsewhere the XML is not well-formed."""
    place = 0
    while True:
        space = SPACE.match(text, place)
        place = space.end() if space else place
        end = next((end for begin, end in BEFORE if text.startswith(begin, place)), None)
        if end is None:
            return text.startswith(DOCTYPE, place)
        place = text.find(end, place)
        if place < 0:
            return False
        place += len(end)


def _reason(error: etree.XMLSyntaxError) -> UnreadableReason:
    message = str(error.msg)
    return next((reason for sign, reason in LIMITS if message.startswith(sign)), UnreadableReason.NOT_XML)
