"""Documents: DocumentReference/$merge, and $cq-search in other sources."""
