"""Laboratories' compendia: which tests a laboratory performs, and what it asks at order entry."""
