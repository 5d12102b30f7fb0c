"""Documents: DocumentReference/$merge, and $cq-search among those of other sources."""
