"""What engine and service share of databases: connections to SQLite and PostgreSQL, and one language for both."""
