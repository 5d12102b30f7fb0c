"""CDA elements with their namespaces; templateIds in both forms that R2.1 asks for."""

from typing import Any, Final, NamedTuple

from lxml.etree import SubElement, _Element

Element = _Element

V3: Final = "urn:hl7-org:v3"
SDTC: Final = "urn:hl7-org:sdtc"
XSI: Final = "http://www.w3.org/2001/XMLSchema-instance"
NAMESPACES: Final[Any] = {None: V3, "sdtc": SDTC, "xsi": XSI}
TYPE: Final = f"{{{XSI}}}type"
US: Final = "2.16.840.1.113883.10.20.22."


class Template(NamedTuple):
    """One C-CDA template; one that R1.1 had is also written without the extension."""

    root: str
    extension: str = ""
    former: bool = True


def template(number: str, extension: str = "", *, former: bool = True) -> Template:
    """Return a template by its number below that of the US realm: `4.30`."""
    return Template(US + number, extension, former)


def add(parent: Element, tag: str, text: str = "", **attributes: str) -> Element:
    """Append an element of CDA and return it; ValueError for characters that XML forbids.

    An attribute of no text is left out: the schema of CDA has none that may be empty.
    """
    made = SubElement(parent, f"{{urn:hl7-org:v3}}{tag}", None, None, **_without_empty(attributes))
    if text:
        made.text = text
    return made


def add_extension(parent: Element, tag: str, text: str = "", **attributes: str) -> Element:
    """Append an element of the extensions that HL7 keeps under the name of SDTC."""
    made = SubElement(parent, f"{{{SDTC}}}{tag}", None, None, **_without_empty(attributes))
    if text:
        made.text = text
    return made


def _without_empty(attributes: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in attributes.items() if value} if "" in attributes.values() else attributes


def add_value(parent: Element, data_type: str, **attributes: str) -> Element:
    """Append the value of an observation, of a data type that its xsi:type names."""
    made = add(parent, "value", **attributes)
    made.set(TYPE, data_type)
    return made


def add_templates(parent: Element, *templates: Template) -> None:
    """Append the templates that an element follows."""
    for one in templates:
        if one.former:
            add(parent, "templateId", root=one.root)
        if one.extension:
            add(parent, "templateId", root=one.root, extension=one.extension)


def add_reference(parent: Element, anchor: str) -> None:
    """Append the text of an entry: a reference to the narrative."""
    add(add(parent, "text"), "reference", value=f"#{anchor}")
