"""Fixtures of the doubles: those of delivery."""

from tests.deliver.conftest import identifier, linking, merging, patient, renaming, site

__all__ = ["identifier", "linking", "merging", "patient", "renaming", "site"]
