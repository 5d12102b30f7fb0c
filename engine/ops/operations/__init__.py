"""What people may ask of the running engine: one table of operations for the terminal, the pages and the API."""
