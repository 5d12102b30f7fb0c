"""Edits of messages that are passed on: the steps of a relay, compiled and applied."""
