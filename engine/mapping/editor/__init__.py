"""What an editor shows of mapping files: problems, completion, hover, definition; pure, for any editor."""
