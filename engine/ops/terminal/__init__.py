"""How the terminal shows things and takes options."""
