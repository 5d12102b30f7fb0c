"""The connector of a laboratory, as it is configured at this moment."""

from engine.config.laboratory import SIMULATED, Laboratory
from engine.config.service import Environment
from engine.interchange.core.service import Service
from engine.interchange.orders.laboratory.connectors.connector import Connector
from engine.interchange.orders.laboratory.connectors.directory import Directory
from engine.interchange.orders.laboratory.connectors.line import Line
from engine.interchange.orders.laboratory.connectors.simulated import Simulated


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
