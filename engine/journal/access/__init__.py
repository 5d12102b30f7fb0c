"""Who may use the engine, and the audit trail of what they did."""
