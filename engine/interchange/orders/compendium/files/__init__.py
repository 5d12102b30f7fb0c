"""A laboratory's authored file: read, checked, and told of with file, line and column."""
