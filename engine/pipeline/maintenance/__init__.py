"""What looks after a running engine: retention, the check of its file, the watch that raises alerts."""
