"""Laboratory orders: how they are checked, kept, moved from state to state, and completed by results."""
