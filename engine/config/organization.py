"""Who keeps a tenant's charts, as the service's documents name it."""

from typing import Annotated, Final

from pydantic import Field

from engine.config.frozen import Frozen
from engine.config.text import shaped

_NPI: Final = r"^([0-9]{10})?$"
_OID: Final = r"^([0-2](\.(0|[1-9][0-9]*))+)?$"


class Organization(Frozen):
    """Who keeps a tenant's charts, as its documents name it."""

    name: str = Field("", max_length=200, description="name of the organization in documents; by default the tenant's")
    npi: Annotated[str, shaped(_NPI, "ten digits")] = Field(
        "", description="its National Provider Identifier", json_schema_extra={"pattern": _NPI}
    )
    oid: Annotated[str, shaped(_OID, "an OID such as 2.16.840.1.113883.3.1")] = Field(
        "", description="its OID", json_schema_extra={"pattern": _OID}
    )
    telephone: str = Field("", max_length=40, description="its telephone")
    street: str = Field("", max_length=200, description="its address, given where `city` is")
    city: str = Field("", max_length=100, description="of its address")
    state: str = Field("", max_length=100, description="of its address")
    postal_code: str = Field("", max_length=20, description="of its address")
    country: str = Field("US", max_length=40, description="of its address")

    @property
    def identifiers(self) -> tuple[tuple[str, str], ...]:
        """System and value of each identifier that is set."""
        npi = ("http://hl7.org/fhir/sid/us-npi", self.npi)
        oid = ("urn:ietf:rfc:3986", f"urn:oid:{self.oid}" if self.oid else "")
        return tuple(one for one in (npi, oid) if one[1])
