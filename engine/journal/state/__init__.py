"""State beyond the entries that survives restarts: identities, pauses, counters, proofs of backups, alerts."""
