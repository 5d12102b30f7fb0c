"""Alerts: what a person has to hear of; each opens once and clears once."""
