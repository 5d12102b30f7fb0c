"""The kinds of jobs, each with what carries it out."""
