"""Media types: which a request has, and which its answer."""
