"""Ways through a CDA document: children by their path, attributes, template ids, and what is negated or absent."""

from functools import cache
from typing import Final

from lxml import etree

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
    return [one.get("root", "").strip() for one in every(element, "templateId")]


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
