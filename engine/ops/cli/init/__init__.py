"""A first channel file, made by answering questions."""
