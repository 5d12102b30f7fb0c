"""What people ask of the journal: lists, search, one entry in full, counts; on connections that can never write."""
