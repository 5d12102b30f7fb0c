"""Reading a C-CDA document into facts: whose it is, where it is from, and what its entries say."""

import hashlib
from typing import Final

from engine.fhir.json import JsonObject
from engine.interchange.clinical.ccda.reading.chart import ReadChart
from engine.interchange.clinical.ccda.reading.datatypes import (
    day,
    human_name,
    identifier,
    identifiers,
    instant,
    offset_of,
    text_of,
)
from engine.interchange.clinical.ccda.reading.element import Element, every, first, read_root, said, tag
from engine.interchange.clinical.ccda.reading.encounters import read_visit
from engine.interchange.clinical.ccda.reading.sections import code_of, read_entries
from engine.interchange.clinical.facts import (
    MOST_BYTES,
    DocumentFacts,
    DocumentIdentity,
    DocumentSection,
    UnreadableDocumentError,
    UnreadableReason,
)

ROOT: Final = tag("ClinicalDocument")
SECTION: Final = tag("section")
GENDERS: Final = {"M": "male", "F": "female", "UN": "other", "UNK": "unknown"}
# What the narrative is read of, in plain text; a table's row is a line.
ROWS: Final = frozenset(tag(name) for name in ("tr", "item", "paragraph", "caption", "br", "list", "table"))
# Who a document is from: the first of these that has a name.
ORGANIZATIONS: Final = (
    "author/assignedAuthor/representedOrganization",
    "custodian/assignedCustodian/representedCustodianOrganization",
)


def read_ccda(body: bytes, most_bytes: int = MOST_BYTES) -> DocumentFacts:
    """Return the facts of a C-CDA document of R1.1 or R2.1, also of one that keeps less to its templates.

    Takes CPU time (about 0.1 ms a fact): call it off the event loop. UnreadableDocumentError is all that it raises,
    with a reason: the bytes are no document that can be read, or it does not say whose it is, or names two patients.
    """
    root = _document(body, most_bytes)
    identity = _identity(root)
    at = said(root, "value", "effectiveTime")
    chart = ReadChart(root, len(body), hashlib.sha256(body).digest(), offset_of(at))
    unread, narrative = 0, []
    for section in root.iter(SECTION):
        code = code_of(section)
        unread += read_entries(chart, section, code)
        narrative.append(DocumentSection(code, text_of(first(section, "title")), _narrative(first(section, "text"))))
    visit = first(root, "componentOf/encompassingEncounter")
    if visit is not None:
        read_visit(chart, visit)
    own = first(root, "id")
    kind = chart.concept(first(root, "code"))
    return DocumentFacts(
        identity=identity,
        document_id=_name(identifier(own)) if own is not None else "",
        title=text_of(first(root, "title")),
        type={name: part for name, part in kind.items() if part},
        at=instant(at),
        author=next(filter(None, (text_of(first(root, f"{path}/name")) for path in ORGANIZATIONS)), ""),
        resources=chart.distinct_resources(),
        narrative=tuple(narrative),
        unread=unread,
    )


def read_identity(body: bytes, most_bytes: int = MOST_BYTES) -> DocumentIdentity:
    """Return whose a C-CDA document is, by its header alone; UnreadableDocumentError as `read_ccda` raises it."""
    return _identity(_document(body, most_bytes))


def _document(body: bytes, most_bytes: int) -> Element:
    root = read_root(body, most_bytes)
    if root.tag != ROOT:
        raise UnreadableDocumentError(UnreadableReason.NOT_A_DOCUMENT)
    return root


def _name(found: JsonObject) -> str:
    """Return an Identifier as one text: its value where it is an address itself, else system and value."""
    value = found.get("value", "")
    return value if value.startswith("urn:") else "|".join(filter(None, (found.get("system", ""), value)))


def _identity(root: Element) -> DocumentIdentity:
    """Return whose document it is; UnreadableDocumentError where it names nobody, or two."""
    found = [_patient(one) for one in every(root, "recordTarget/patientRole")]
    named = [one for one in found if one.given or one.family or one.birth_date or one.identifiers]
    if not named:
        raise UnreadableDocumentError(UnreadableReason.NO_PATIENT)
    if any(one != named[0] for one in named):
        raise UnreadableDocumentError(UnreadableReason.TWO_PATIENTS)
    return named[0]


def _patient(role: Element) -> DocumentIdentity:
    patient = first(role, "patient")
    names = [human_name(one) for one in every(patient, "name")]
    name = next((one for one in names if one.get("use") == "official"), next(iter(names), {}))
    return DocumentIdentity(
        given=tuple(name.get("given", ())),
        family=name.get("family", "") or name.get("text", ""),
        birth_date=day(said(patient, "value", "birthTime")),
        gender=GENDERS.get(said(patient, "code", "administrativeGenderCode"), ""),
        identifiers=tuple((one.get("system", ""), one["value"]) for one in identifiers(role)),
    )


def _narrative(text: Element | None) -> str:
    """Return the plain text of a section, a line for each row and paragraph."""
    if text is None:
        return ""
    parts: list[str] = []
    for part in text.iter():
        if part.tag in ROWS:
            parts.append("\n")
        parts += [part.text or "", " ", (part.tail or "") if part is not text else "", " "]
    lines = (" ".join(line.split()) for line in "".join(parts).split("\n"))
    return "\n".join(filter(None, lines))
