"""C-CDA documents of other organizations, read into facts."""
