"""The surfaces for people: the command line and the admin socket."""
