"""The socket of an HTTP server, bound before anything is served on it."""

import socket


def bind(host: str, port: int, *, backlog: int) -> socket.socket:
    """Return a listening socket, port 0 on a free one; OSError where the address cannot be had."""
    listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(backlog)
    except OSError:
        listening.close()
        raise
    return listening
