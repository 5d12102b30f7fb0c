"""What holds for resources of every kept type: definitions, index rows, rules, and read, search, create, update."""
