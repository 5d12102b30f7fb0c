"""Conformance: how a message differs from its version of the standard; a report, never a gate of its own."""
