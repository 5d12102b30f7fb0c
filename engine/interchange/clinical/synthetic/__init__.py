"""Invented people and their charts, as R4 resources: for sandboxes, demonstrations and tests."""
