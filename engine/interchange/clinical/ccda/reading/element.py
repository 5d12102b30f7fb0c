"""A document's XML: parsed without DTD, entities or network, within bounds; children, template ids, negation.

What a document may cost is bounded before it is parsed: its bytes, and its signs that begin tags and attributes. Of a
text that passes, libxml2 refuses more than 256 levels, and one text or attribute of more than 10 million characters.
"""

import codecs
import re
from functools import cache
from typing import Final

from lxml import etree

from engine.interchange.clinical.facts import MOST_BYTES, UnreadableDocumentError, UnreadableReason

Element = etree._Element  # noqa: SLF001

NAMESPACES: Final = {"": "urn:hl7-org:v3", "sdtc": "urn:hl7-org:sdtc"}
XSI_TYPE: Final = "{http://www.w3.org/2001/XMLSchema-instance}type"
TRUE: Final = frozenset({"true", "1"})


@cache
def tag(name: str) -> str:
    """Return the full name of an element: `code` for one of CDA, `sdtc:raceCode` for one of its extensions."""
    prefix, _, local = name.rpartition(":")
    return f"{{{NAMESPACES[prefix]}}}{local}"


@cache
def _path(path: str) -> str:
    return "/".join(tag(step) for step in path.split("/"))


def first(element: Element | None, path: str) -> Element | None:
    """Return the first element at a path of names; None for none, and for a path from nowhere."""
    return None if element is None else element.find(_path(path))


def every(element: Element | None, path: str) -> list[Element]:
    """Return all elements at a path of names, in the order of the document."""
    return [] if element is None else element.findall(_path(path))


def said(element: Element | None, name: str = "code", path: str = "") -> str:
    """Return an attribute of the element, or of the first one at a path, without space around it; '' for none."""
    if path:
        element = first(element, path)
    return "" if element is None else (element.get(name) or "").strip()


def templates(element: Element) -> list[str]:
    """Return the roots of an element's template ids: their versions are read alike."""
    return [template_id.get("root", "").strip() for template_id in every(element, "templateId")]


def value_type(value: Element) -> str:
    """Return the data type that a value says it has (`PQ`); where it says none, the one it looks like."""
    named = value.get(XSI_TYPE, "").rpartition(":")[2].strip()
    if named:
        return named
    if value.get("code"):
        return "CD"
    return "PQ" if value.get("value") else "ST"


def is_negated(element: Element) -> bool:
    """Say whether a statement says that something is not so, or was not done."""
    return element.get("negationInd", "").strip() in TRUE


def is_null(element: Element) -> bool:
    """Return whether a statement is a null statement."""
    return element.get("nullFlavor") is not None


def related(element: Element, kind: str = "", name: str = "observation") -> list[Element]:
    """Return the statements of a name that relate to one and say something; of one kind of relation, if it is given."""
    found: list[Element] = []
    for relation in every(element, "entryRelationship"):
        if not kind or relation.get("typeCode") == kind:
            found += [one for one in every(relation, name) if not is_null(one)]
    return found


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
