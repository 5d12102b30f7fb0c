"""What a narrative may hold: text, lists, tables, links and images of XHTML, and nothing that acts (FHIR's txt-1).

Browsers show narratives; a script in one would run with the rights of the chart's reader.
"""

import re
from collections.abc import Iterator
from html import unescape
from typing import Final

from engine.fhir.extra_constraints import Defect, DefectKind
from engine.fhir.json import JsonObject

# Chapters 7 to 11 and 15 of HTML 4.0, including the obsolete text elements, which are harmless.
NAMES: Final = (
    "a abbr acronym address area b bdo big blockquote br caption center cite code col colgroup dd del dfn div dl"
    " dt em font h1 h2 h3 h4 h5 h6 hr i img ins kbd li map ol p pre q s samp small span strike strong sub sup"
    " table tbody td tfoot th thead tr tt u ul var"
)
ELEMENTS: Final = frozenset(NAMES.split())
# A comment with nothing that could begin or end an element; a tag whose attributes are quoted; else what is neither.
TOKEN: Final = re.compile(
    r"<!--(?!-?>)[^<>]*-->"
    r"|</?(?P<tag>[A-Za-z][A-Za-z0-9]*)"
    r"""(?P<attributes>(?>\s+[A-Za-z_][A-Za-z0-9_:.-]*(?>\s*=\s*(?>"[^"<]*"|'[^'<]*'))?)*)\s*/?>"""
    r"|(?P<other><)"
)
ATTRIBUTE: Final = re.compile(r"""([A-Za-z_][A-Za-z0-9_:.-]*)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'))?""")
ADDRESSES: Final = frozenset({"href", "src", "cite", "longdesc", "usemap"})
# Attributes that load or send something, or hold a page; any attribute that begins with `on` is a script.
ACTING_NAMES: Final = (
    "action archive background classid code codebase data dynsrc formaction http-equiv lowsrc manifest ping poster"
    " profile srcdoc srcset"
)
ACTIVE: Final = frozenset(ACTING_NAMES.split())
SCHEME: Final = re.compile(r"([a-z][a-z0-9+.-]*):")
BLANKS: Final = re.compile(r"[\x00-\x20\x7f-\xa0\u200b-\u200f\u2028\u2029\ufeff]+")
SCHEMES: Final = frozenset({"http", "https", "mailto", "tel", "ftp", "urn", "cid"})
PICTURE: Final = re.compile(r"data:image/(?:png|gif|jpe?g|bmp|webp)[;,]")
# Parts of a style that load or run something, or could hide that.
ACTING: Final = re.compile(r"\\|/\*|expression|url\s*\(|@import|behavi|binding|script", re.IGNORECASE)
UNSAFE: Final = "active content, or none of XHTML: a narrative has text, lists, tables, links and images (txt-1)"


def narrative_defects(resource: JsonObject, path: str) -> Iterator[Defect]:
    """Yield the narratives of a resource, and of those contained in it, that hold more than one may."""
    text = resource.get("text")
    div = text.get("div") if isinstance(text, dict) else None
    if isinstance(div, str) and not is_narrative(div):
        yield Defect(f"{path}.text.div", DefectKind.VALUE, UNSAFE)
    contained = resource.get("contained")
    for index, one in enumerate(contained if isinstance(contained, list) else ()):
        if isinstance(one, dict):
            yield from narrative_defects(one, f"{path}.contained[{index}]")


def is_narrative(div: str) -> bool:
    """True if a text has only the elements and attributes that a narrative may have."""
    for found in TOKEN.finditer(div):
        if found["other"]:
            return False
        tag = found["tag"]
        if tag and (tag.lower() not in ELEMENTS or not _are_quiet(found["attributes"])):
            return False
    return True


def _are_quiet(attributes: str) -> bool:
    return all(
        _is_quiet(name.lower(), unescape(double or single)) for name, double, single in ATTRIBUTE.findall(attributes)
    )


def _is_quiet(name: str, value: str) -> bool:
    if name.startswith("on") or name in ACTIVE or (":" in name and not name.startswith(("xml:", "xmlns:"))):
        return False
    if name == "style":
        return ACTING.search(value) is None
    if name not in ADDRESSES:
        return True
    address = BLANKS.sub("", value).lower()
    scheme = SCHEME.match(address)
    return scheme is None or scheme[1] in SCHEMES or (name == "src" and PICTURE.match(address) is not None)
