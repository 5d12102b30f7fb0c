"""Fixtures of the doubles: those of delivery."""

from tests.deliver.conftest import identifier, merging, patient, renaming, site

__all__ = ["identifier", "merging", "patient", "renaming", "site"]
