"""Floor 5: FHIR's interactions: read, search, create, update, patch, delete, history, merge, everything."""
