"""The language of the files: expressions, functions, templates, and what is checked of them."""
