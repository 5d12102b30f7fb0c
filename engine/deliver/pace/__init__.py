"""How fast a destination may be asked: backoff, circuit breaker, window, suspicion; pure values."""
