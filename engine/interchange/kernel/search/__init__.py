"""Sealed tokens."""
