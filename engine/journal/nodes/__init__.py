"""A journal that nodes share, on PostgreSQL: its tables, the turns of its writers, leases and what they fence."""
