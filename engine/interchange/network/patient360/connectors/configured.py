"""The sources of a tenant: the configured ones, or the mock of a sandbox."""

import asyncio
from secrets import token_hex

from engine.clock import now
from engine.config.connector import Connector as Settings
from engine.config.model import Placed
from engine.config.service import ServiceConfiguration
from engine.interchange.core.service import Service
from engine.interchange.kernel.outbound import Outbound
from engine.interchange.network.patient360.connectors.connector import DocumentSource
from engine.interchange.network.patient360.connectors.directory import DirectorySource
from engine.interchange.network.patient360.connectors.fhir import FhirServer
from engine.interchange.network.patient360.connectors.mock import Mock


def connectors_of(service: Service, tenant: str) -> tuple[DocumentSource, ...]:
    """Return the sources of a tenant, by name; () if `network_mode` is real and none is configured."""
    configuration = service.configuration
    if configuration.mocked(tenant):
        return (Mock(),)
    named = sorted(configuration.tenants[tenant].connectors.items())
    return tuple(_connector(service, name, settings) for name, settings in named)


async def complaints(configuration: ServiceConfiguration) -> list[Placed]:
    """Return the problems of configured FHIR servers, each with its place; all servers are checked at once."""
    servers = {
        (tenant, name): FhirServer(name, settings, Outbound(), now, lambda: token_hex(16))
        for tenant, own in configuration.tenants.items()
        for name, settings in own.connectors.items()
        if settings.type == "fhir" and not configuration.mocked(tenant)
    }
    problems = await asyncio.gather(*(server.complaint() for server in servers.values()))
    mend = "a server that answers, and lets the service in"
    return [
        (("tenants", tenant, "connectors", name), f"the server {text}", mend)
        for (tenant, name), text in zip(servers, problems, strict=True)
        if text
    ]


def _connector(service: Service, name: str, settings: Settings) -> DocumentSource:
    if settings.type == "directory":
        return DirectorySource(name, settings)
    return FhirServer(name, settings, service.outbound, service.clock, service.new_id)
