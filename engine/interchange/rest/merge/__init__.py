"""Patient/$merge: one record takes the place of another."""
