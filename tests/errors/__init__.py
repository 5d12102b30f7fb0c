"""Every error text that an author of mappings, channels and the service's configuration can meet, and its rules."""
