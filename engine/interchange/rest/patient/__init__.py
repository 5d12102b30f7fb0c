"""The interactions with Patient."""
