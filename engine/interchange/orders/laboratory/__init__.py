"""Laboratories: how orders get there, at most once and never lost, and what comes of it."""
