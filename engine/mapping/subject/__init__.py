"""Whom a message speaks of, and what is to be done."""
