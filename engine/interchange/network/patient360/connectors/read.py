"""What a source has handed over, read by its kind."""

from engine.interchange.clinical.ccda.reading.document import read_ccda
from engine.interchange.clinical.patient360.facts import DocumentFacts
from engine.interchange.network.patient360.connectors.connector import FHIR, RetrievedDocument
from engine.interchange.network.patient360.reading_bundle import read_bundle


def read_document(document: RetrievedDocument) -> DocumentFacts:
    """Return what a document says; UnreadableDocumentError. Takes CPU time: call it off the event loop."""
    if document.media_type == FHIR:
        return read_bundle(document.body, document.version)
    return read_ccda(document.body)
