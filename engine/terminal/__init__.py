"""What every command is made of: shared options, tables, JSON, commands read when they are called."""
