"""One section of a document: its heading, a table that people read, and the entries that refer to its rows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from engine.fhir.json import JsonObject
from engine.interchange.clinical.ccda.codes import Fixed, loinc
from engine.interchange.clinical.ccda.element import Element, Template, add, add_reference, add_templates, template
from engine.interchange.clinical.ccda.record import DocumentRecord

Item = Any

COMMENT: Final = template("4.64")
NOTHING: Final = "No information"


@dataclass(slots=True)
class SectionTable:
    """The table of a section; each row is an anchor for the entries, and each of its cells is one."""

    name: str
    body: Element = field(repr=False)
    below: Element = field(repr=False)
    rows: int = 0
    notes: int = 0

    def row(self, *cells: str) -> str:
        """Append a row and return its anchor; that of its first cell is `cell(anchor)`."""
        self.rows += 1
        anchor = f"{self.name}-{self.rows}"
        row = add(self.body, "tr", ID=anchor)
        for at, text in enumerate(cells, 1):
            add(row, "td", text, ID=f"{anchor}.{at}") if text else add(row, "td")
        return anchor

    def note(self, about: str, text: str) -> str:
        """Put a note on something below the table, and return its anchor."""
        self.notes += 1
        anchor = f"{self.name}-note-{self.notes}"
        line = add(self.below, "paragraph", f"{about}: " if about else "")
        add(line, "content", text, ID=anchor)
        return anchor


@dataclass(frozen=True, slots=True)
class SectionWriter:
    """A section: `items` selects its content from the chart, `write` appends one item's row and entry."""

    name: str
    code: Fixed
    title: str
    templates: tuple[Template, ...]
    headings: tuple[str, ...]
    items: Callable[[DocumentRecord], Sequence[Item]]
    write: Callable[[DocumentRecord, Element, SectionTable, Item], None]


def cell(anchor: str, at: int = 1) -> str:
    """Return the anchor of a cell of a row."""
    return f"{anchor}.{at}"


def add_section(body: Element, section: SectionWriter, record: DocumentRecord) -> None:
    """Append a section; an empty one says so in words and by the null flavor NI."""
    items = section.items(record)
    component = add(body, "component")
    made = add(component, "section") if items else add(component, "section", nullFlavor="NI")
    add_templates(made, *section.templates)
    add(made, "code", **section.code)
    add(made, "title", section.title)
    text = add(made, "text")
    if not items:
        add(text, "paragraph", NOTHING)
        return
    table = add(text, "table", border="1", width="100%")
    heads = add(add(table, "thead"), "tr")
    for heading in section.headings:
        add(heads, "th", heading)
    rows = SectionTable(section.name, add(table, "tbody"), text)
    for item in items:
        section.write(record, made, rows, item)


def add_entry(section: Element, tag: str, class_code: str, mood: str = "EVN", **attributes: str) -> Element:
    """Append an entry to a section, and return the act within it."""
    return add(add(section, "entry", typeCode="DRIV"), tag, classCode=class_code, moodCode=mood, **attributes)


def add_notes(parent: Element, resource: JsonObject, about: str, table: SectionTable) -> None:
    """Append what people noted on an entry, each as a comment; `about` is what they read that it is on."""
    for note in resource.get("note") or ():
        if note.get("text"):
            made = add_related(parent, "SUBJ", "act", "ACT", inverted=True)
            add_comment(made, table.note(about, note["text"]))


def add_comment(made: Element, anchor: str) -> None:
    """Fill a comment, whose text is in the narrative."""
    add_templates(made, COMMENT)
    add(made, "code", **loinc("48767-8", "Annotation comment"))
    add_reference(made, anchor)


def add_related(
    parent: Element, kind: str, tag: str, class_code: str, mood: str = "EVN", *, inverted: bool = False
) -> Element:
    """Append an act that is related to another one, and return it; `inverted`: it is of the other, not the reverse."""
    link = add(parent, "entryRelationship", typeCode=kind)
    if inverted:
        link.set("inversionInd", "true")
    return add(link, tag, classCode=class_code, moodCode=mood)
