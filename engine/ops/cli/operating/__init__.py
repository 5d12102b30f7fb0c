"""Commands on channels, destinations, alerts and the journal's file; help."""
