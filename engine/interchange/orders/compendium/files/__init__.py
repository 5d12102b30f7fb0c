"""A laboratory's authored file: read and checked; problems are reported with file, line and column."""
