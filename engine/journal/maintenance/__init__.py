"""Care of the file: retention, backup and restore, verification."""
