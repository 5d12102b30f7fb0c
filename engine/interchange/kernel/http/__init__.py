"""How often something may be tried."""
