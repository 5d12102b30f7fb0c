"""Floor 4: the service, requests, answers, and the access log."""
