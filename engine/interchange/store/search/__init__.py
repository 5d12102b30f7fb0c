"""FHIR search: parameters, their rules, and the queries that answer them."""
