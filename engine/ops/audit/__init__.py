"""The audit trail: written before an act is done, bound together, anchored, listed and exported."""
