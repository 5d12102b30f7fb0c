"""The server's side of HTTP/1.1, bounded, over TLS or not: the operators' pages and the service are served by it."""
