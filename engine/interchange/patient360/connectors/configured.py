"""The sources of a tenant: those that its configuration names, or the invented ones of a sandbox."""

from engine.config.connector import Connector as Settings
from engine.interchange.patient360.connectors.connector import Connector
from engine.interchange.patient360.connectors.directory import Directory
from engine.interchange.patient360.connectors.fhir import FhirServer
from engine.interchange.patient360.connectors.mock import Mock
from engine.interchange.service import Service


def connectors_of(service: Service, tenant: str) -> tuple[Connector, ...]:
    """Return the sources of a tenant, by name; none where `network_mode` is real and none are configured."""
    configuration = service.configuration
    if configuration.mocked(tenant):
        return (Mock(),)
    named = sorted(configuration.tenants[tenant].connectors.items())
    return tuple(_made(service, name, settings) for name, settings in named)


def _made(service: Service, name: str, settings: Settings) -> Connector:
    if settings.type == "directory":
        return Directory(name, settings)
    return FhirServer(name, settings, service.outbound, service.clock, service.new_id)
