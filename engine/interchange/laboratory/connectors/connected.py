"""The connector of a laboratory, as it is configured at this moment."""

from engine.config.laboratory import SIMULATED, Laboratory
from engine.config.service import Environment
from engine.interchange.laboratory.connectors.connector import Connector
from engine.interchange.laboratory.connectors.directory import Directory
from engine.interchange.laboratory.connectors.line import Line
from engine.interchange.laboratory.connectors.simulated import Simulated
from engine.interchange.service import Service


def connected(service: Service, laboratory: Laboratory) -> Connector:
    """Return the way to a laboratory."""
    settings = laboratory.connector
    if settings.type == SIMULATED:
        return Simulated()
    production = service.configuration.environment is Environment.PRODUCTION
    processing_id = settings.processing_id or ("P" if production else "T")
    if settings.type == "directory":
        return Directory(settings, processing_id, service.clock())
    return Line(settings, processing_id, service.clock(), service.outbound)
