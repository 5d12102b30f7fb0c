"""The spine: intake (receive, journal, acknowledge) and dispatch (claim, map, deliver, settle)."""
