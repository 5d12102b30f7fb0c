"""HTTP: a request as a value, and the server's side of HTTP/1.1, bounded, over TLS or not, for pages and service."""
