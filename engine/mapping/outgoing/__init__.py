"""The way back: what became different on a FHIR server, as one HL7 v2 ADT message."""
