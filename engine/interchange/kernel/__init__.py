"""Floor 1: outcomes, JSON, outbound HTTP, sealed tokens."""
