"""Connectors: where the record of a patient is asked for outside of this service."""
