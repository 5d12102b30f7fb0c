"""C-CDA R2.1: a chart written as a Continuity of Care Document, and documents of others read."""
