"""The demonstration: a server, a feed and a short story, made in one command."""
