"""adt-engine: an HL7 v2 ADT to FHIR interface engine."""

__version__ = "1.0.0rc1"
