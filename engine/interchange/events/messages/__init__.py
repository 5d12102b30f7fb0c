"""Messages of a hospital's events: accepted once, sent to subscribers, and searched."""
