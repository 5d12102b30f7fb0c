"""The audit trail: written before an operation is done, bound together, anchored, listed and exported."""
