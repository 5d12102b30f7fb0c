"""What is told of a source that failed."""

from engine.errors import place_of
from engine.interchange.network.patient360.connectors.connector import DocumentSource, SourceError
from engine.telemetry import logger


def reason_of(source: DocumentSource, error: Exception) -> str:
    """Return why a source failed and what to do, without anything of the patient; what nobody foresaw is logged."""
    if isinstance(error, SourceError):
        return str(error)
    if isinstance(error, TimeoutError):
        return f"{source.name} did not answer in time; ask again later."
    logger().error("source failed", code=source.name, error=type(error).__name__, file=place_of(error))
    return f"{source.name} failed within the service; its log says where."
