"""Connectors: the sources of a patient's record outside of this service."""
