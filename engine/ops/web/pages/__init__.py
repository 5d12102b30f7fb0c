"""The pages, one module for each place in the menu; everything they show or do is an operation."""
