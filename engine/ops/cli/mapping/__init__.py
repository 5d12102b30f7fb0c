"""Commands on mappings: check, try, test, explain, compare."""
