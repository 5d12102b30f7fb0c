"""Floor 8: clinical content: C-CDA, facts and terms, synthetic charts."""
