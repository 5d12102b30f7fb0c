"""Conversion between R4, which is stored, and STU3."""
