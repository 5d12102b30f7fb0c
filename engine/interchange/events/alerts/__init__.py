"""Alerts on patients of a roster: admitted, looked for by others, or in a document that others have."""
