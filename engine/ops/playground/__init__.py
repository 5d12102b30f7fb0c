"""The mapping playground: what an author's edits would make of a message, worked out in a process of its own."""
