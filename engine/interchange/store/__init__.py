"""Floor 2: the databases, transactions and search."""
