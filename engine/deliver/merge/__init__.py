"""Merges, links, moves and changes of patient identifiers, and what follows them."""
