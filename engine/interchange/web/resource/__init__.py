"""The interactions with each kept type, in one table."""
