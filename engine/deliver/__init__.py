"""From a plan to a FHIR server that is true: resolve, create, update, merge."""
