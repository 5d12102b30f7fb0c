"""FHIR resources made of segments: elements, lists, references."""
