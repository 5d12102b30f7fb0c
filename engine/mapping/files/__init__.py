"""What authors write, as it stands: documents, tables, settings, and the reference that both are held against."""
