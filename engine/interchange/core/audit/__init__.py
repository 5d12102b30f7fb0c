"""The access log of the service: its rows, and their search as AuditEvent."""
