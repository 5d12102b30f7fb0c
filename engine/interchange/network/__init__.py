"""Floor 9: records and documents of other organizations."""
