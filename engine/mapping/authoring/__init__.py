"""Tools for authors: explanations, coverage, differences, cases, schemas."""
