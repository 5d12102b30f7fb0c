"""The journal's tables as SQL, one module a concern, in the order of their migrations."""
