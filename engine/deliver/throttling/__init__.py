"""Throttling of a destination: backoff, circuit breaker, window, poison detection; pure values."""
