"""The authored files: documents, tables, settings, and the reference that they are checked against."""
