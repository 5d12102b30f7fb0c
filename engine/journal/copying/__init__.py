"""Copying a journal from SQLite's file to PostgreSQL and back: cut off at any moment, it goes on where it stopped."""
