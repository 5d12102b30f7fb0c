"""Alerts on enrolled patients: an admission, a network query, or a document on a network."""
