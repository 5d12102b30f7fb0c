"""The JSON API: the same operations as at the terminal and on the pages, for programs with a bearer token."""
