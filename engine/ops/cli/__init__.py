"""The command line: a module a command; each asks the running engine, or reads its journal."""
