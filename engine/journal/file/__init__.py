"""The SQLite file: opened durable or not at all, with its tables, its lock, its reserve, and bodies sealed."""
