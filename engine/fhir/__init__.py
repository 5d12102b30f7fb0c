"""FHIR: plans of interactions, changes of resources and outcomes; values only."""
