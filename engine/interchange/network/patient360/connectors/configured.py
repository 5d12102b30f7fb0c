"""The sources of a tenant: those that its configuration names, or the invented ones of a sandbox."""

import asyncio
from secrets import token_hex

from engine.clock import now
from engine.config.connector import Connector as Settings
from engine.config.service import ServiceConfiguration
from engine.config.wording import Placed
from engine.interchange.core.service import Service
from engine.interchange.kernel.outbound import Outbound
from engine.interchange.network.patient360.connectors.connector import DocumentSource
from engine.interchange.network.patient360.connectors.directory import DirectorySource
from engine.interchange.network.patient360.connectors.fhir import FhirServer
from engine.interchange.network.patient360.connectors.mock import Mock


def connectors_of(service: Service, tenant: str) -> tuple[DocumentSource, ...]:
    """Return the sources of a tenant, by name; none where `network_mode` is real and none are configured."""
    configuration = service.configuration
    if configuration.mocked(tenant):
        return (Mock(),)
    named = sorted(configuration.tenants[tenant].connectors.items())
    return tuple(_made(service, name, settings) for name, settings in named)


async def complaints(configuration: ServiceConfiguration) -> list[Placed]:
    """Return the FHIR servers that tenants would ask and cannot, each with its place; all are asked at once."""
    named = {
        (tenant, name): FhirServer(name, settings, Outbound(), now, lambda: token_hex(16))
        for tenant, own in configuration.tenants.items()
        for name, settings in own.connectors.items()
        if settings.type == "fhir" and not configuration.mocked(tenant)
    }
    told = await asyncio.gather(*(one.complaint() for one in named.values()))
    mend = "a server that answers, and lets the service in"
    return [
        (("tenants", tenant, "connectors", name), f"the server {text}", mend)
        for (tenant, name), text in zip(named, told, strict=True)
        if text
    ]


def _made(service: Service, name: str, settings: Settings) -> DocumentSource:
    if settings.type == "directory":
        return DirectorySource(name, settings)
    return FhirServer(name, settings, service.outbound, service.clock, service.new_id)
