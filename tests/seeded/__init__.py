"""Bugs planted on purpose, and the tests that must die of them."""
