"""Binary: content of any media type, kept as a resource or for an hour, shown as it is or as FHIR."""
