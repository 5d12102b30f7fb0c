"""The language server of mapping files."""
