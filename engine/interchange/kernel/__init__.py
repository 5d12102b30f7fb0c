"""Floor 1: outcomes, times, outbound HTTP, sealed tokens."""
