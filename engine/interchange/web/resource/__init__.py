"""The interactions of each stored type, in one table."""
