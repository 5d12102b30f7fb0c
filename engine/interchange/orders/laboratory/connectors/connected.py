"""The connector of a laboratory, as it is configured at this moment."""

from engine.config.laboratory import SIMULATED, Laboratory
from engine.config.service import Environment
from engine.interchange.core.service import Service
from engine.interchange.orders.laboratory.connectors.connector import OrderConnector
from engine.interchange.orders.laboratory.connectors.directory import DirectoryConnector
from engine.interchange.orders.laboratory.connectors.line import MllpConnector
from engine.interchange.orders.laboratory.connectors.simulated import SimulatedConnector


def connected(service: Service, laboratory: Laboratory) -> OrderConnector:
    """Return the way to a laboratory."""
    settings = laboratory.connector
    if settings.type == SIMULATED:
        return SimulatedConnector()
    production = service.configuration.environment is Environment.PRODUCTION
    processing_id = settings.processing_id or ("P" if production else "T")
    if settings.type == "directory":
        return DirectoryConnector(settings, processing_id, service.clock())
    return MllpConnector(settings, processing_id, service.clock(), service.outbound)
